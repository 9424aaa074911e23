//! `cargo xtask kernels`: compiles every kernel instance for every target with clang, and compares the registers, LDS
//! and occupancy of each with the committed `kernels/resources.tsv`.
//!
//! It fails on scratch memory, on spilled registers (including scalar registers spilled to lanes of a vector register), on
//! FLAT memory instructions, and on any figure that differs from the table. `--record` rewrites the table; with `--gfx`, the columns of these targets. `kernels.json`, next to the code objects,
//! describes how to launch them. Requires `clang-19`, `lld-19` and `llvm-19` (`CLANG`, `OBJDUMP` and `READELF` name others), but
//! no ROCm.
//!
//! `--newer-clang` does the same for the targets that clang 19 does not know, with `clang-21` and
//! `kernels/resources-newer-clang.tsv`. `--hiprtc DIR` reads code objects compiled by hipRTC, see [`hiprtc`].
mod disassembly;
mod document;
mod figures;
mod fingerprint;
mod hiprtc;
mod layouts;
mod metadata;
mod occupancy;
mod record;
mod table;

use crate::page::root;
use figures::{Figures, Measured, fault};
use ops_kernels::source::{self, Family};
use ops_kernels::{instances, target};
use record::Record;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct Options {
    targets: Vec<String>,
    families: Vec<Family>,
    out: PathBuf,
    /// The table that belongs to the targets.
    record: Record,
    /// Whether to rewrite it.
    rewrite: bool,
    /// The folder of hipRTC's code objects, if they are to be read.
    hiprtc: Option<PathBuf>,
    clang: String,
    tools: Tools,
}

/// The names of LLVM's tools.
#[derive(Clone, Debug)]
struct Tools {
    objdump: String,
    readelf: String,
}

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args == ["--document"] {
        return document::write();
    }
    let options = parse(args)?;
    if let Some(folder) = &options.hiprtc {
        return hiprtc::main(folder, &options.families, &options.tools, options.rewrite);
    }
    let version = compiler_version(&options.clang)?;
    for target in &options.targets {
        target::check_clang(&version, target)?;
    }
    let started = Instant::now();
    let measured = compile_all(&options)?;
    if options.families.len() == Family::ALL.len() {
        table::write(&options.clang, &version, &options.targets, &options.out)?;
    }
    let mut faults = faults(&measured, &options);
    if options.rewrite {
        if !faults.is_empty() {
            return Err(report("not recorded", &faults));
        }
        options.record.write(&measured, &options, &version)?;
    } else {
        faults.extend(options.record.differences(&measured, &options, &version)?);
    }
    if !faults.is_empty() {
        return Err(report("kernels violate a limit or differ from the record", &faults));
    }
    let compiled = measured.values().map(BTreeMap::len).sum::<usize>();
    println!(
        "{compiled} kernels compiled ({} instances, {} targets) in {:.0} s, no scratch, no register spilled, no FLAT instruction: {}",
        measured.len(),
        options.targets.len(),
        started.elapsed().as_secs_f64(),
        options.out.display()
    );
    Ok(())
}

const OPTIONS: &str =
    "--gfx LIST, --family LIST, --out DIR, --newer-clang, --hiprtc DIR, --record, --document";

fn parse(args: &[String]) -> Result<Options, String> {
    let newer = args.iter().any(|arg| arg == "--newer-clang");
    let record = if newer { Record::newer_clang() } else { Record::standard() };
    let clang = std::env::var("CLANG").unwrap_or_else(|_| if newer { "clang-21" } else { "clang-19" }.into());
    let tool = |name| disassembly::tool_of(&clang, name);
    let mut options = Options {
        targets: record.targets.iter().map(|t| t.to_string()).collect(),
        families: Family::ALL.to_vec(),
        out: root().join(if newer { "target/kernels-newer-clang" } else { "target/kernels" }),
        record,
        rewrite: false,
        hiprtc: None,
        tools: Tools { objdump: tool("objdump"), readelf: tool("readelf") },
        clang,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} requires a value"));
        match arg.as_str() {
            "--gfx" => options.targets = value()?.split(',').map(|t| t.trim().to_owned()).collect(),
            "--family" => options.families = value()?.split(',').map(family_of).collect::<Result<_, _>>()?,
            "--out" => options.out = PathBuf::from(value()?),
            "--hiprtc" => options.hiprtc = Some(PathBuf::from(value()?)),
            "--newer-clang" => {}
            "--record" => options.rewrite = true,
            other => return Err(format!("kernels: no option `{other}`; the options are {OPTIONS}")),
        }
    }
    if let Some(unknown) = options.targets.iter().find(|t| target::wave_of(t).is_none()) {
        return Err(format!(
            "kernels: `{unknown}` is not a gfx9 to gfx12 target; known targets: {}",
            options.record.targets.join(", ")
        ));
    }
    Ok(options)
}

fn family_of(name: &str) -> Result<Family, String> {
    let known = || Family::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
    let found = Family::ALL.iter().find(|f| f.name() == name.trim());
    found.copied().ok_or_else(|| format!("kernels: no family `{name}`; the families are {}", known()))
}

fn compiler_version(clang: &str) -> Result<String, String> {
    let advice = "install it with `apt-get install clang-19 lld-19`, or name another in CLANG";
    let out = Command::new(clang).arg("--version").output().map_err(|e| format!("{clang}: {e}; {advice}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let version = text.split("version ").nth(1).and_then(|v| v.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| format!("{clang} --version does not name a version; {advice}"))
}

/// Compiles the families for the targets on all cores.
fn compile_all(options: &Options) -> Result<Measured, String> {
    let mut jobs: Vec<(&str, Family)> = Vec::new();
    for &family in &options.families {
        let with = |target: &&String| family.runs_on(target);
        jobs.extend(options.targets.iter().filter(with).map(|t| (t.as_str(), family)));
    }
    for target in &options.targets {
        let folder = options.out.join(target);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let done = AtomicUsize::new(0);
    let mut measured = Measured::new();
    let work = |&(target, family): &(&str, Family)| {
        let started = Instant::now();
        let compiled = compile(options, target, family);
        let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = started.elapsed().as_secs_f64();
        println!("[{finished}/{}] {target} {} {seconds:.1} s", jobs.len(), family.name());
        compiled
    };
    in_parallel(&jobs, work, |&(target, _), figures| {
        for (kernel, f) in figures {
            measured.entry(kernel).or_default().insert(target.to_owned(), f);
        }
    })?;
    Ok(measured)
}

/// Runs each job on one of all cores, and passes its result to `each`. The error has the messages of all
/// failed jobs.
fn in_parallel<J: Sync, R>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R, String> + Sync,
    each: impl FnMut(&J, R) + Send,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new((each, Vec::new()));
    let worker = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(job);
            let (each, errors) = &mut *results.lock().unwrap_or_else(|e| e.into_inner());
            match result {
                Ok(result) => each(job, result),
                Err(message) => errors.push(message),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let (_, errors) = results.into_inner().unwrap_or_else(|e| e.into_inner());
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
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
    let mut figures = read_remarks(&messages);
    let output = [output];
    let in_metadata: BTreeMap<_, _> =
        metadata::read(&options.tools.readelf, &output, target)?.into_iter().collect();
    let counts = disassembly::instructions(&options.tools.objdump, &output)?;
    for (kernel, f) in &mut figures {
        let metadata = in_metadata.get(kernel).ok_or_else(|| format!("{kernel} on {target}: no metadata"))?;
        f.check_metadata(kernel, target, metadata)?;
        f.flat = counts.get(kernel).copied().unwrap_or_default().flat;
    }
    Ok(figures)
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
            "VGPRs Spill" => figures.vector_spills = number,
            "SGPRs Spill" => figures.scalar_spills = number,
            _ => {}
        }
    }
    out
}

/// Faults that a record does not excuse: missing kernels, spilled registers, scratch, wrong LDS sizes.
fn faults(measured: &Measured, options: &Options) -> Vec<String> {
    let mut out = Vec::new();
    for k in instances().iter().filter(|k| options.families.contains(&k.family)) {
        let by_target = measured.get(&k.symbol);
        for target in options.targets.iter().filter(|target| k.runs_on(target)) {
            match by_target.and_then(|m| m.get(target)) {
                None => out.push(format!("{} on {target}: not in the code object", k.symbol)),
                Some(f) => out.extend(fault(k, target, f)),
            }
        }
    }
    out
}

fn report(what: &str, faults: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut out = format!("{what}:\n  {}", faults[..faults.len().min(SHOWN)].join("\n  "));
    if faults.len() > SHOWN {
        out += &format!("\n  ... and {} more", faults.len() - SHOWN);
    }
    out + "\n`cargo xtask kernels --record` records new figures; scratch, spilled registers and wrong LDS sizes must be fixed in the kernel"
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMARKS: &str = "k.hip:1:1: remark: Function Name: sigmoid_f16 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     TotalSGPRs: 30 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     VGPRs: 20 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     AGPRs: 4 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     ScratchSize [bytes/lane]: 0 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     Occupancy [waves/SIMD]: 8 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     SGPRs Spill: 7 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     VGPRs Spill: 0 [-Rpass-analysis=kernel-resource-usage]\n\
        k.hip:1:1: remark:     LDS Size [bytes/block]: 0 [-Rpass-analysis=kernel-resource-usage]\n";

    #[test]
    fn remarks_are_read() {
        let read = read_remarks(REMARKS);
        let [(name, f)] = &read[..] else { panic!("{read:?}") };
        assert_eq!((name.as_str(), f.cell().as_str()), ("sigmoid_f16", "24/30/8"));
        assert_eq!((f.scalar_spills, f.vector_spills, f.scratch, f.lds), (7, 0, 0, 0));
    }

    #[test]
    fn options_are_read() {
        let of = |args: &[&str]| parse(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert!(of(&["--record"]).is_ok());
        assert_eq!(of(&["--record", "--gfx", "gfx90a"]).unwrap().targets, ["gfx90a"]);
        assert!(of(&["--gfx", "gfx9999"]).is_err());
        assert_eq!(of(&["--family", "unary,norm"]).unwrap().families, [Family::Unary, Family::Norm]);
        assert!(of(&["--family", "unary,nrom"]).is_err());
        assert_eq!(of(&["--record", "--newer-clang"]).unwrap().targets, ["gfx950"]);
    }
}
