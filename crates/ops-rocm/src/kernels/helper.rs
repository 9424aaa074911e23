//! Compiling in other processes. hipRTC's compiler handles one source at a time per process, whatever the
//! number of threads.
//!
//! A helper is a second process of this program. It reads requests, one per line, and answers with code until
//! its input ends. It does so before `main`, so programs need not provide for it.
use super::options_for;
use crate::fingerprint::Fingerprint;
use crate::hip::{CodeObject, Compiler, Gfx, Hip, Source};
use crate::own_program::{again, in_program};
use ops_kernels::Unit;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Set in the environment of a helper.
const ASKED: &str = "OPS_ROCM_COMPILE_HELPER";
/// The start of an answer. A helper whose standard output has anything else is not usable.
const MAGIC: &[u8; 8] = b"opscode1";

// SAFETY: the loader calls the functions of this section, each once, after the C library is ready. With glibc and musl, what
// `serve` uses of Rust's standard library (environment, standard streams, allocation) works from then on.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Turns this process into a helper if it was started as one.
#[cfg(target_os = "linux")]
extern "C" fn before_main() {
    if std::env::var_os(ASKED).is_some() && in_program() {
        // Whatever goes wrong, the requesting process then compiles the source itself.
        let served = serve(&mut io::stdin().lock(), &mut io::stdout().lock());
        std::process::exit(i32::from(served.is_err()));
    }
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "helpers are for Linux"))]
fn serve(requests: &mut dyn BufRead, answers: &mut dyn Write) -> io::Result<()> {
    let mut compiler = None;
    for request in requests.lines() {
        let code = answer(&request?, &mut compiler).unwrap_or_default();
        answers.write_all(MAGIC)?;
        answers.write_all(&(code.len() as u64).to_le_bytes())?;
        answers.write_all(&Fingerprint::of(&code).to_le_bytes())?;
        answers.write_all(&code)?;
        answers.flush()?;
    }
    Ok(())
}

/// A request, as a line: architecture, unit, and a hash of the source text and of the library that is to
/// compile it.
fn request(gfx: &Gfx, unit: &Unit, text: &str, compiler: &Compiler) -> String {
    let mut hash = Fingerprint::new();
    hash.text(text);
    hash.text(&compiler.lib().path().to_string_lossy());
    format!("{} {} {:032x}\n", gfx.full(), unit.name(), hash.value())
}

/// The code; `None` if compilation fails, or if this process has different sources or another compiler.
fn answer(line: &str, compiler: &mut Option<Compiler>) -> Option<Vec<u8>> {
    let [gfx, unit, _] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    let gfx = Gfx::parse(gfx).ok()?;
    let unit = Unit::all().into_iter().find(|known| known.name() == unit)?;
    if compiler.is_none() {
        *compiler = Some(Compiler::load(&Hip::load().ok()?).ok()?);
    }
    let (compiler, text) = (compiler.as_ref()?, unit.text(gfx.full()));
    if request(&gfx, &unit, &text, compiler).trim_end() != line {
        return None;
    }
    let (name, options) = (unit.name() + ".hip", options_for(&gfx).ok()?);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let code = compiler.compile(Source { name: &name, text: &text, headers: &[] }, &gfx, &options);
    Some(code.ok()?.to_bytes())
}

/// Compiles for one thread: in this process, or in a helper.
#[derive(Debug)]
pub(super) enum Worker {
    /// This process.
    Here,
    /// A helper that starts with the first source.
    NotStarted,
    /// A helper.
    Helper(Helper),
}

impl Worker {
    /// The code, if a helper made it.
    pub(super) fn compile(
        &mut self,
        gfx: &Gfx,
        unit: &Unit,
        text: &str,
        compiler: &Compiler,
    ) -> Option<CodeObject> {
        if let Worker::NotStarted = self {
            *self = Helper::start().map_or(Worker::Here, Worker::Helper);
        }
        let Worker::Helper(helper) = self else { return None };
        let answered = helper.ask(&request(gfx, unit, text, compiler));
        match answered {
            Ok(code) if code.is_empty() => None,
            // SAFETY: the hash proves that these are the bytes a compiler wrote.
            Ok(code) => Some(unsafe { CodeObject::from_bytes(&code) }),
            Err(error) => {
                tracing::warn!("a helper process failed; this process now compiles kernels itself: {error}");
                *self = Worker::Here;
                None
            }
        }
    }
}

/// A helper process.
#[derive(Debug)]
pub(super) struct Helper {
    process: Child,
    /// Closed to end the process.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    /// `None` if this program cannot be started again as a helper.
    fn start() -> Option<Helper> {
        let mut process =
            again(ASKED, "1").ok()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (requests, answers) = (process.stdin.take(), BufReader::new(process.stdout.take()?));
        Some(Helper { process, requests, answers })
    }

    fn ask(&mut self, request: &str) -> io::Result<Vec<u8>> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(request.as_bytes())?;
        requests.flush()?;
        read_answer(&mut self.answers)
    }
}

/// The code of an answer; empty if there is none.
fn read_answer(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let (mut magic, mut length, mut hash) = ([0; 8], [0; 8], [0; 16]);
    from.read_exact(&mut magic)?;
    from.read_exact(&mut length)?;
    from.read_exact(&mut hash)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its answer is damaged");
    if &magic != MAGIC {
        return Err(damaged());
    }
    let (length, mut code) = (u64::from_le_bytes(length), Vec::new());
    from.take(length).read_to_end(&mut code)?;
    let whole = code.len() as u64 == length && Fingerprint::of(&code) == u128::from_le_bytes(hash);
    if whole { Ok(code) } else { Err(damaged()) }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.requests = None;
        if let Err(error) = self.process.wait() {
            tracing::warn!("waiting for a helper process failed: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_make_no_sense_are_answered_without_code_and_damage_is_noticed() {
        let mut answers = Vec::new();
        serve(&mut "gfx1100 no-such-unit 0\nnonsense\n\n".as_bytes(), &mut answers).unwrap();
        let mut from = answers.as_slice();
        for _ in 0..3 {
            assert_eq!(read_answer(&mut from).unwrap(), Vec::<u8>::new());
        }
        assert!(read_answer(&mut from).is_err(), "no more");

        let mut whole = MAGIC.to_vec();
        whole.extend(4u64.to_le_bytes());
        whole.extend(Fingerprint::of(b"code").to_le_bytes());
        whole.extend(b"code");
        assert_eq!(read_answer(&mut whole.as_slice()).unwrap(), b"code");
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1;
            assert!(read_answer(&mut damaged.as_slice()).is_err(), "byte {byte}");
            assert!(read_answer(&mut &whole[..byte]).is_err(), "cut to {byte} bytes");
        }
    }
}
