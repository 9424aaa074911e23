//! `cargo xtask kernels`: compiles every kernel instance for every target with clang, and holds the
//! registers, LDS and occupancy of each against the committed `kernels/resources.tsv`.
//!
//! Scratch and spilled vector registers fail, and so does any figure that differs from the table until `--record`
//! rewrites it. Scalar registers that the compiler keeps in lanes of a vector register are recorded. `kernels.json` beside the code objects says how to launch them. Needs `clang-19` and `lld-19` (`CLANG` names another compiler) and no ROCm.
mod document;
mod layouts;
mod table;

use ops_kernels::source::{self, Family};
use ops_kernels::{Instance, Matrix, instances};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Figures of one kernel on one target, as the compiler reports them.
#[derive(Clone, Debug, Default)]
struct Figures {
    vgprs: u32,
    sgprs: u32,
    occupancy: u32,
    lds: u32,
    scratch: u32,
    /// Vector registers that went to memory.
    spills: u32,
    /// Scalar registers that went to lanes of a vector register: moves, no memory.
    lanes: u32,
}

impl Figures {
    fn cell(&self) -> String {
        format!("{}/{}/{}/{}", self.vgprs, self.sgprs, self.occupancy, self.lanes)
    }
}

/// Figures by kernel, then by target.
type Measured = BTreeMap<String, BTreeMap<String, Figures>>;

struct Options {
    targets: Vec<String>,
    out: PathBuf,
    record: bool,
    clang: String,
}

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args == ["--document"] {
        return document::write(&root());
    }
    let options = parse(args)?;
    let version = compiler_version(&options.clang)?;
    let started = Instant::now();
    let measured = compile_all(&options)?;
    table::write(&options.clang, &version, &options.targets, &options.out)?;
    let mut faults = faults(&measured, &options.targets);
    let table = root().join("kernels/resources.tsv");
    if options.record {
        if !faults.is_empty() {
            return Err(report("not recorded", &faults));
        }
        std::fs::write(&table, render(&measured, &version))
            .map_err(|e| format!("{}: {e}", table.display()))?;
        println!("recorded in {}", table.display());
    } else {
        faults.extend(differences(&measured, &options.targets, &table, &version)?);
    }
    if !faults.is_empty() {
        return Err(report("kernels differ from what is allowed or recorded", &faults));
    }
    let compiled = measured.values().map(BTreeMap::len).sum::<usize>();
    println!(
        "{compiled} kernels compiled ({} instances, {} targets) in {:.0} s, no scratch, no vector register spilled: {}",
        measured.len(),
        options.targets.len(),
        started.elapsed().as_secs_f64(),
        options.out.display()
    );
    Ok(())
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        targets: source::TARGETS.iter().map(|t| t.to_string()).collect(),
        out: root().join("target/kernels"),
        record: false,
        clang: std::env::var("CLANG").unwrap_or_else(|_| "clang-19".into()),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--gfx" => options.targets = value()?.split(',').map(|t| t.trim().to_owned()).collect(),
            "--out" => options.out = PathBuf::from(value()?),
            "--record" => options.record = true,
            other => {
                return Err(format!(
                    "kernels: no option `{other}`; there are --gfx LIST, --out DIR, --record, --document"
                ));
            }
        }
    }
    if let Some(unknown) = options.targets.iter().find(|t| source::wave_of(t).is_none()) {
        return Err(format!(
            "kernels: `{unknown}` is no gfx9 to gfx12 target; known ones: {}",
            source::TARGETS.join(", ")
        ));
    }
    if options.record && options.targets.len() != source::TARGETS.len() {
        return Err("kernels: --record wants every target, so leave --gfx out".into());
    }
    Ok(options)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

fn compiler_version(clang: &str) -> Result<String, String> {
    let advice = "install it with `apt-get install clang-19 lld-19`, or name another in CLANG";
    let out = Command::new(clang).arg("--version").output().map_err(|e| format!("{clang}: {e}; {advice}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let version = text.split("version ").nth(1).and_then(|v| v.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| format!("{clang} --version does not name a version; {advice}"))
}

/// Compiles every family for every target on all cores.
fn compile_all(options: &Options) -> Result<Measured, String> {
    let mut jobs: Vec<(&str, Family)> = Vec::new();
    for &family in Family::ALL {
        let with = |target: &&String| !family.needs_matrix() || Matrix::of(target).is_some();
        jobs.extend(options.targets.iter().filter(with).map(|t| (t.as_str(), family)));
    }
    for target in &options.targets {
        let folder = options.out.join(target);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<(Measured, Vec<String>)> = Mutex::default();
    let work = || {
        while let Some(&(target, family)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let started = Instant::now();
            let compiled = compile(options, target, family);
            let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
            let seconds = started.elapsed().as_secs_f64();
            println!("[{finished}/{}] {target} {} {seconds:.1} s", jobs.len(), family.name());
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            match compiled {
                Ok(figures) => figures.into_iter().for_each(|(kernel, f)| {
                    results.0.entry(kernel).or_default().insert(target.to_owned(), f);
                }),
                Err(message) => results.1.push(message),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (measured, errors) = results.into_inner().unwrap_or_else(|e| e.into_inner());
    if errors.is_empty() { Ok(measured) } else { Err(errors.join("\n")) }
}

/// Compiles one family for one target and reads the compiler's remarks.
fn compile(options: &Options, target: &str, family: Family) -> Result<Vec<(String, Figures)>, String> {
    let input = options.out.join(target).join(format!("{}.hip", family.name()));
    std::fs::write(&input, source::source_for(family, target))
        .map_err(|e| format!("{}: {e}", input.display()))?;
    let output = options.out.join(target).join(format!("{}.hsaco", family.name()));
    let flags = source::clang_options(target).ok_or_else(|| format!("{target}: unknown target"))?;
    let out = Command::new(&options.clang)
        .args(flags)
        .args([
            "-Rpass-analysis=kernel-resource-usage",
            "-Wall",
            "-Wno-unused-function",
            "-Wno-unused-const-variable",
        ])
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .output()
        .map_err(|e| format!("{}: {e}", options.clang))?;
    let messages = String::from_utf8_lossy(&out.stderr);
    let complaints = messages.lines().filter(|l| l.contains("error:") || l.contains("warning:"));
    let complaints: Vec<&str> = complaints.filter(|l| !l.contains("code object v6")).take(20).collect();
    if !out.status.success() || !complaints.is_empty() {
        let what = if complaints.is_empty() { messages.trim().to_owned() } else { complaints.join("\n") };
        return Err(format!("{} does not compile cleanly for {target}:\n{what}", family.name()));
    }
    Ok(read_remarks(&messages))
}

fn read_remarks(messages: &str) -> Vec<(String, Figures)> {
    let mut out: Vec<(String, Figures)> = Vec::new();
    for line in messages.lines() {
        let Some((_, remark)) = line.split_once("remark: ") else { continue };
        let Some((name, rest)) = remark.trim().split_once(": ") else { continue };
        let value = rest.split_whitespace().next().unwrap_or_default();
        if name == "Function Name" {
            out.push((value.to_owned(), Figures::default()));
            continue;
        }
        let (Some((_, figures)), Ok(number)) = (out.last_mut(), value.parse::<u32>()) else { continue };
        match name.split(" [").next().unwrap_or_default() {
            "VGPRs" | "AGPRs" => figures.vgprs += number,
            "SGPRs" | "TotalSGPRs" => figures.sgprs = number,
            "Occupancy" => figures.occupancy = number,
            "LDS Size" => figures.lds = number,
            "ScratchSize" => figures.scratch = number,
            "VGPRs Spill" => figures.spills = number,
            "SGPRs Spill" => figures.lanes = number,
            _ => {}
        }
    }
    out
}

/// What no record can excuse.
fn faults(measured: &Measured, targets: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for k in instances() {
        let by_target = measured.get(&k.symbol);
        for target in targets.iter().filter(|target| k.runs_on(target)) {
            match by_target.and_then(|m| m.get(target)) {
                None => out.push(format!("{} on {target}: not in the code object", k.symbol)),
                Some(f) => out.extend(fault(k, target, f)),
            }
        }
    }
    out
}

fn fault(k: &Instance, target: &str, f: &Figures) -> Option<String> {
    if f.scratch > 0 || f.spills > 0 {
        return Some(format!(
            "{} on {target}: {} bytes of scratch, {} vector registers spilled",
            k.symbol, f.scratch, f.spills
        ));
    }
    (f.lds != k.lds).then(|| {
        format!("{} on {target}: {} bytes of LDS, the table of instances says {}", k.symbol, f.lds, k.lds)
    })
}

/// The table: a line with the compiler, a heading, a line a kernel.
fn render(measured: &Measured, version: &str) -> String {
    let mut out = format!(
        "# clang {version}; cells: VGPRs/SGPRs/occupancy in waves per SIMD/SGPRs kept in lanes of a VGPR\n"
    );
    out += &format!("kernel\tlds\tscratch\t{}\n", source::TARGETS.join("\t"));
    for k in instances() {
        let empty = BTreeMap::new();
        let by_target = measured.get(&k.symbol).unwrap_or(&empty);
        let scratch = by_target.values().map(|f| f.scratch).max().unwrap_or_default();
        let cells: Vec<String> =
            source::TARGETS.iter().map(|t| by_target.get(*t).map_or("-".into(), Figures::cell)).collect();
        out += &format!("{}\t{}\t{scratch}\t{}\n", k.symbol, k.lds, cells.join("\t"));
    }
    out
}

/// Where the recorded table says otherwise.
fn differences(
    measured: &Measured,
    targets: &[String],
    table: &Path,
    version: &str,
) -> Result<Vec<String>, String> {
    let text =
        std::fs::read_to_string(table).map_err(|e| format!("{}: {e}; --record makes it", table.display()))?;
    let recorded_with =
        text.lines().next().and_then(|l| l.strip_prefix("# clang ")).and_then(|l| l.split(';').next());
    if recorded_with != Some(version) {
        println!(
            "the table was recorded with clang {}, this is {version}: figures not compared",
            recorded_with.unwrap_or("?")
        );
        return Ok(Vec::new());
    }
    let heading: Vec<&str> = text.lines().nth(1).unwrap_or_default().split('\t').collect();
    let rows: BTreeMap<&str, Vec<&str>> =
        text.lines().skip(2).map(|l| l.split('\t').collect::<Vec<_>>()).map(|r| (r[0], r)).collect();
    let mut out = Vec::new();
    for k in instances() {
        let Some(row) = rows.get(k.symbol.as_str()) else {
            out.push(format!("{}: not recorded", k.symbol));
            continue;
        };
        for target in targets {
            let Some(column) = heading.iter().position(|h| h == target) else { continue };
            let recorded = row.get(column).copied().unwrap_or("-");
            let now = measured.get(&k.symbol).and_then(|m| m.get(target)).map_or("-".into(), Figures::cell);
            if recorded != now {
                out.push(format!("{} on {target}: {now}, recorded {recorded}", k.symbol));
            }
        }
    }
    let gone = rows.keys().filter(|r| ops_kernels::by_symbol(r).is_none());
    out.extend(gone.map(|r| format!("{r}: recorded, but no longer an instance")));
    Ok(out)
}

fn report(what: &str, faults: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut out = format!("{what}:\n  {}", faults[..faults.len().min(SHOWN)].join("\n  "));
    if faults.len() > SHOWN {
        out += &format!("\n  ... and {} more", faults.len() - SHOWN);
    }
    out + "\n`cargo xtask kernels --record` records new figures; scratch, spilled vector registers and wrong LDS sizes need a better kernel"
}
