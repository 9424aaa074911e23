//! Tests whether devices reach each other's memory, in a process of its own with a time limit.
//!
//! Some drivers report peer access that hangs, faults or loses data. The child process is this program, started again; it runs an
//! `all_reduce` on each pair of devices. The result is stored in the cache folder, and is valid until the next boot or a change of HIP.
use super::operands::Operands;
use super::peers::{self, Peers, SLOT, Transport};
use crate::error::failed;
use crate::hip::{Device, DeviceInfo, Hip};
use crate::kernels::CacheFolder;
use crate::own_program::{again, in_program};
use crate::{Result, Rocm, own_files};
use ops_core::group::{Announced, Collective, Reduction};
use ops_core::{Backend, DType};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Set in the environment of the process that tests, to the numbers of the devices.
const ASKED: &str = "OPS_ROCM_TEST_PEERS";
/// How long that process may take before it tests, which includes compiling kernels.
const START: Duration = Duration::from_secs(60);
/// How long the test of two devices may take.
const PAIR: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];
/// How long kernels wait for each other in it.
const KERNELS: Duration = Duration::from_secs(2);

/// Whether kernels of two devices reach each other's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerAccess {
    /// Their numbers.
    pub devices: [u32; 2],
    /// Why not, if they do not.
    pub problem: Option<String>,
}

impl fmt::Display for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.devices;
        match &self.problem {
            None => write!(f, "devices {a} and {b} reach each other's memory"),
            Some(problem) => write!(f, "devices {a} and {b} do not reach each other's memory: {problem}"),
        }
    }
}

/// Tests every two discrete, supported devices of this machine, although a stored result may exist.
///
/// # Errors
/// There is no HIP, or an error from HIP.
pub fn test_peer_access() -> Result<Vec<PeerAccess>> {
    let devices = cards()?;
    let found = test(&devices, PAIR[1]);
    let found = found.map_err(|error| failed("testing access between devices", error))?;
    store(&devices, &found);
    Ok(found)
}

/// What the last test found that is still valid; empty if there was none, or fewer than two devices.
pub fn known_peer_access() -> Vec<PeerAccess> {
    cards().map(|devices| stored(&devices)).unwrap_or_default()
}

fn cards() -> Result<Vec<Device>> {
    let hip = Hip::load().map_err(crate::hip::Error::from)?;
    let devices = DeviceInfo::all(&hip)?.into_iter();
    let cards = devices.filter(|device| device.gfx.is_supported() && !device.integrated);
    Ok(cards.map(|info| Device::new(&hip, info)).collect())
}

/// What a stored or a new test says of every two devices.
pub(super) fn tested(devices: &[Device], limit: Duration) -> Vec<PeerAccess> {
    let known = stored(devices);
    let pairs = peers::pairs(devices);
    if known.len() == pairs.len() || known.iter().any(|pair| pair.problem.is_some()) {
        return known;
    }
    match test(devices, limit.clamp(PAIR[0], PAIR[1])) {
        Ok(found) => {
            store(devices, &found);
            found
        }
        Err(error) => {
            let why = format!("the test could not be started: {error}");
            pairs.first().map(|first| pair(*first, Some(why))).into_iter().collect()
        }
    }
}

/// Tests every two devices in another process. Ends at the first two that do not work, since a process that hangs tests no others.
fn test(devices: &[Device], limit: Duration) -> io::Result<Vec<PeerAccess>> {
    let pairs = peers::pairs(devices);
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<String> = devices.iter().map(|device| device.info().ordinal.to_string()).collect();
    let mut command = again(ASKED, &numbers.join(","))?;
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = lines_of(&mut process);
    let mut next = |limit| match lines.recv_timeout(limit) {
        Ok(line) => Some(line).filter(|line| line != GOOD),
        Err(RecvTimeoutError::Timeout) => Some(format!("the test did not end within {limit:?}")),
        Err(RecvTimeoutError::Disconnected) => Some(format!("the test died: {}", ended(&mut process))),
    };
    // The first line says that it is ready.
    let mut problem = next(START);
    let mut found = Vec::new();
    for devices in pairs {
        let problem = problem.take().or_else(|| next(limit));
        let works = problem.is_none();
        found.push(pair(devices, problem));
        if !works {
            break;
        }
    }
    end(process);
    Ok(found)
}

fn pair((a, b): (&Device, &Device), problem: Option<String>) -> PeerAccess {
    PeerAccess { devices: [a, b].map(|device| device.info().ordinal), problem }
}

/// What the process prints when it is ready, and for two devices that work.
const GOOD: &str = "good";

/// Its lines, read by another thread, because reading has no time limit.
fn lines_of(process: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(output) = process.stdout.take() {
        let read = move || {
            for line in BufReader::new(output).lines().map_while(io::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        // Without the thread there are no lines, which is the same as a process that died.
        let _started = std::thread::Builder::new().name("rocm-ops peers".into()).spawn(read);
    }
    receiver
}

/// How a process ended that closed its output.
fn ended(process: &mut Child) -> String {
    match wait_briefly(process) {
        Some(status) => status.to_string(),
        None => "it closed its output".to_owned(),
    }
}

fn wait_briefly(process: &mut Child) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        if let Ok(Some(status)) = process.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Ends the process. One that waits for a device inside of the driver may not end, and is not waited for.
fn end(mut process: Child) {
    if process.try_wait().is_ok_and(|ended| ended.is_none()) {
        let _ended = process.kill();
    }
    if wait_briefly(&mut process).is_none() {
        tracing::warn!("the process {} that tested access between devices does not end", process.id());
    }
}

// ---- stored results ----

fn file() -> Option<PathBuf> {
    CacheFolder::Standard.path().map(|folder| folder.join("peers.txt"))
}

/// What results depend on; `None` if the system does not say when it was started.
fn head(devices: &[Device]) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let lib = devices.first()?.hip().lib();
    let version = lib.version().map(|version| version.to_string()).unwrap_or_default();
    Some(format!("{} {version} {}", boot.trim(), lib.path().display()))
}

fn stored(devices: &[Device]) -> Vec<PeerAccess> {
    const MAX_BYTES: u64 = 1 << 20;
    let read = file().and_then(|path| own_files::read(&path, MAX_BYTES).ok());
    let Some(text) = read.and_then(|(_, bytes)| String::from_utf8(bytes).ok()) else { return Vec::new() };
    parse(&text, devices, head(devices).as_deref())
}

fn parse(text: &str, devices: &[Device], head: Option<&str>) -> Vec<PeerAccess> {
    let mut lines = text.lines();
    if lines.next() != head || head.is_none() {
        return Vec::new();
    }
    let lines: Vec<Vec<&str>> = lines.map(|line| line.splitn(3, ' ').collect()).collect();
    let known = |(a, b): (&Device, &Device)| {
        let names = [a, b].map(|device| device.info().pci_bus_id.as_str());
        let line = lines.iter().find(|line| line.len() == 3 && line[..2] == names)?;
        Some(pair((a, b), (line[2] != GOOD).then(|| line[2].to_owned())))
    };
    peers::pairs(devices).into_iter().filter_map(known).collect()
}

/// Stores what was found. If that fails, the next process tests again.
fn store(devices: &[Device], found: &[PeerAccess]) {
    let (Some(path), Some(mut text)) = (file(), head(devices)) else { return };
    let name = |number: u32| {
        let device = devices.iter().find(|device| device.info().ordinal == number);
        device.map_or("", |device| device.info().pci_bus_id.as_str())
    };
    for PeerAccess { devices: [a, b], problem } in found {
        let result = problem.as_deref().unwrap_or(GOOD).replace('\n', " ");
        text += &format!("\n{} {} {result}", name(*a), name(*b));
    }
    if let Err(error) = own_files::write(&path, (text + "\n").as_bytes()) {
        tracing::debug!("{}: {error}", path.display());
    }
}

// ---- the process that tests ----

// SAFETY: as for the helper that compiles: the loader calls this once, after the C library is ready, and what it uses of Rust's
// standard library works from then on.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Runs the test instead of `main` if this process was started for it.
#[cfg(target_os = "linux")]
extern "C" fn before_main() {
    if let Some(numbers) = std::env::var_os(ASKED)
        && in_program()
    {
        let served = serve(&numbers.to_string_lossy(), &mut io::stdout());
        std::process::exit(i32::from(served.is_err()));
    }
}

/// Prints a line for every two of these devices.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux starts it"))]
fn serve(numbers: &str, out: &mut dyn Write) -> io::Result<()> {
    let open = |number: &str| Rocm::builder().ordinal(number.parse().unwrap_or(u32::MAX)).build();
    let queues: Vec<Rocm> = numbers.split(',').map(open).collect::<Result<_>>().map_err(io::Error::other)?;
    // Compiles the kernels, so that no kernel waits for a compiler.
    queues.iter().try_for_each(|queue| try_out(&[queue])).map_err(io::Error::other)?;
    writeln!(out, "{GOOD}")?;
    out.flush()?;
    for (at, first) in queues.iter().enumerate() {
        for second in &queues[at + 1..] {
            let line = try_out(&[first, second]).err().map_or(GOOD.to_owned(), |error| error.to_string());
            writeln!(out, "{}", line.replace('\n', " "))?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Sums patterns over devices, through their memory.
fn try_out(queues: &[&Rocm]) -> Result<(), String> {
    let devices: Vec<Device> = queues.iter().map(|queue| queue.device().clone()).collect();
    let text = |error: crate::Error| error.to_string();
    peers::enable(&peers::pairs(&devices)).map_err(text)?;
    let peers = &Peers::new(&devices, Transport::Direct, KERNELS).map_err(text)?;
    // Both halves of the areas, twice, with one block and with many.
    for round in 0..4u32 {
        for len in [SLOT / 4, 1001] {
            std::thread::scope(|scope| {
                let sum = |rank: usize| move || sum(peers, queues[rank], rank, (queues.len(), round, len));
                let threads: Vec<_> = (0..queues.len()).map(|rank| scope.spawn(sum(rank))).collect();
                let results =
                    threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked"));
                results.into_iter().try_for_each(|result| result?)
            })?;
        }
    }
    Ok(())
}

fn sum(
    peers: &std::sync::Arc<Peers>,
    queue: &Rocm,
    rank: usize,
    (ranks, round, len): (usize, u32, usize),
) -> Result<(), String> {
    let value = |rank: usize, at: u32| (at + round).wrapping_mul(0x9E37_79B9).rotate_left(5 * rank as u32);
    let text = |error: crate::Error| error.to_string();
    let all: Vec<u32> = (0..len as u32).map(|at| value(rank, at)).collect();
    let x = queue.tensor([len], &all).map_err(text)?;
    let mut y = queue.zeros::<u32>([len]).map_err(text)?;
    let call = Announced { op: Collective::AllReduce(Reduction::Sum), dtype: DType::U32, count: len };
    let operands = Operands { x: Some(x.as_ref().any()), y: Some(y.as_mut().any()) };
    peers.call((queue, rank), call, &operands).map_err(text)?;
    let got = y.to_vec(queue).map_err(text)?;
    if let Some(failure) = peers.failure() {
        return Err(format!("device {} {}", queue.device().info().ordinal, failure.why));
    }
    let want = (0..len as u32).map(|at| (0..ranks).fold(0u32, |sum, rank| sum.wrapping_add(value(rank, at))));
    if got.iter().copied().eq(want) { Ok(()) } else { Err("other bytes arrive than were written".to_owned()) }
}
