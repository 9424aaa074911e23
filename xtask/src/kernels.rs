//! `cargo xtask kernels`: compiles every kernel instance for every target with clang, and compares the registers, LDS
//! and occupancy of each with the committed `kernels/resources.tsv`.
//!
//! It fails on scratch memory, on spilled registers (including scalar registers spilled to lanes of a vector register), on
//! FLAT memory instructions, and on any figure that differs from the table. `--record` rewrites the table. `kernels.json`, next to the code objects,
//! describes how to launch them. Requires `clang-19`, `lld-19` and `llvm-19` (`CLANG` and
//! `OBJDUMP` name others), but no ROCm.
mod disassembly;
mod document;
mod layouts;
mod table;

use crate::page::root;
use ops_kernels::source::{self, Family};
use ops_kernels::{Instance, instances, target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The figures that the compiler reports for one kernel on one target.
#[derive(Clone, Debug, Default)]
struct Figures {
    vgprs: u32,
    sgprs: u32,
    occupancy: u32,
    lds: u32,
    scratch: u32,
    /// Vector registers spilled to memory.
    vector_spills: u32,
    /// Scalar registers spilled to lanes of a vector register.
    scalar_spills: u32,
    /// FLAT memory instructions.
    flat: u32,
}

impl Figures {
    fn cell(&self) -> String {
        format!("{}/{}/{}", self.vgprs, self.sgprs, self.occupancy)
    }
}

/// Figures by kernel, then by target.
type Measured = BTreeMap<String, BTreeMap<String, Figures>>;

struct Options {
    targets: Vec<String>,
    families: Vec<Family>,
    out: PathBuf,
    record: bool,
    clang: String,
    objdump: String,
}

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args == ["--document"] {
        return document::write();
    }
    let options = parse(args)?;
    let version = compiler_version(&options.clang)?;
    let started = Instant::now();
    let measured = compile_all(&options)?;
    if options.families.len() == Family::ALL.len() {
        table::write(&options.clang, &version, &options.targets, &options.out)?;
    }
    let mut faults = faults(&measured, &options);
    let table = root().join("kernels/resources.tsv");
    if options.record {
        if !faults.is_empty() {
            return Err(report("not recorded", &faults));
        }
        let recorded = if options.families.len() == Family::ALL.len() {
            String::new()
        } else {
            recorded_rows(&table, &version)?
        };
        std::fs::write(&table, render(&measured, &options.families, &recorded, &version))
            .map_err(|e| format!("{}: {e}", table.display()))?;
        println!("recorded in {}", table.display());
    } else {
        faults.extend(differences(&measured, &options, &table, &version)?);
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

fn parse(args: &[String]) -> Result<Options, String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".into());
    let mut options = Options {
        objdump: disassembly::objdump_of(&clang),
        targets: target::recorded().into_iter().map(String::from).collect(),
        families: Family::ALL.to_vec(),
        out: root().join("target/kernels"),
        record: false,
        clang,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} requires a value"));
        match arg.as_str() {
            "--gfx" => options.targets = value()?.split(',').map(|t| t.trim().to_owned()).collect(),
            "--family" => options.families = value()?.split(',').map(family_of).collect::<Result<_, _>>()?,
            "--out" => options.out = PathBuf::from(value()?),
            "--record" => options.record = true,
            other => {
                return Err(format!(
                    "kernels: no option `{other}`; there are --gfx LIST, --family LIST, --out DIR, --record, --document"
                ));
            }
        }
    }
    if let Some(unknown) = options.targets.iter().find(|t| target::wave_of(t).is_none()) {
        return Err(format!(
            "kernels: `{unknown}` is not a gfx9 to gfx12 target; known targets: {}",
            target::recorded().join(", ")
        ));
    }
    if options.record && options.targets.len() != target::recorded().len() {
        return Err("kernels: --record requires every target; omit --gfx".into());
    }
    Ok(options)
}

fn family_of(name: &str) -> Result<Family, String> {
    let known = || Family::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
    let found = Family::ALL.iter().find(|f| f.name() == name.trim());
    found.copied().ok_or_else(|| format!("kernels: no family `{name}`; there are {}", known()))
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
    let mut figures = read_remarks(&messages);
    let flat = disassembly::flat_instructions(&options.objdump, &output)?;
    for (kernel, f) in &mut figures {
        f.flat = flat.get(kernel).copied().unwrap_or_default();
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

fn fault(k: &Instance, target: &str, f: &Figures) -> Option<String> {
    if f.scratch > 0 || f.vector_spills > 0 || f.scalar_spills > 0 {
        return Some(format!(
            "{} on {target}: {} bytes of scratch, {} vector and {} scalar registers spilled",
            k.symbol, f.scratch, f.vector_spills, f.scalar_spills
        ));
    }
    if f.flat > 0 {
        return Some(format!(
            "{} on {target}: {} FLAT instructions; pointers in arguments are `Address`, and pointers to LDS are declared so",
            k.symbol, f.flat
        ));
    }
    (f.lds != k.lds).then(|| {
        format!("{} on {target}: {} bytes of LDS, the table of instances says {}", k.symbol, f.lds, k.lds)
    })
}

/// The recorded table, for the rows of families that are not compiled in this run.
fn recorded_rows(table: &Path, version: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(table).map_err(|e| format!("{}: {e}", table.display()))?;
    if text.lines().next() == Some(&heading(version)) {
        Ok(text)
    } else {
        Err("the table is of another compiler or form, so every family must be recorded: omit --family"
            .into())
    }
}

fn heading(version: &str) -> String {
    format!("# clang {version}; cells: VGPRs/SGPRs/occupancy in waves per SIMD")
}

/// Renders the table: a line with the compiler, a heading, and a line per kernel. Other families keep their rows from
/// `recorded`.
fn render(measured: &Measured, families: &[Family], recorded: &str, version: &str) -> String {
    let recorded: BTreeMap<&str, &str> =
        recorded.lines().filter_map(|l| Some((l.split('\t').next()?, l))).collect();
    let mut out = heading(version) + "\n";
    out += &format!("kernel\tlds\tscratch\t{}\n", target::recorded().join("\t"));
    for k in instances() {
        if !families.contains(&k.family) {
            out.extend(recorded.get(k.symbol.as_str()).iter().flat_map(|line| [line, "\n"]));
            continue;
        }
        let empty = BTreeMap::new();
        let by_target = measured.get(&k.symbol).unwrap_or(&empty);
        let scratch = by_target.values().map(|f| f.scratch).max().unwrap_or_default();
        let cells: Vec<String> =
            target::recorded().iter().map(|t| by_target.get(*t).map_or("-".into(), Figures::cell)).collect();
        out += &format!("{}\t{}\t{scratch}\t{}\n", k.symbol, k.lds, cells.join("\t"));
    }
    out
}

/// Figures that differ from the recorded table.
fn differences(
    measured: &Measured,
    options: &Options,
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
    for k in instances().iter().filter(|k| options.families.contains(&k.family)) {
        let Some(row) = rows.get(k.symbol.as_str()) else {
            out.push(format!("{}: not recorded", k.symbol));
            continue;
        };
        for target in &options.targets {
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
    fn spills_scratch_flat_instructions_and_other_lds_are_faults() {
        let k = ops_kernels::by_symbol("sigmoid_f16").unwrap();
        let clean = Figures { vgprs: 20, sgprs: 30, occupancy: 8, ..Figures::default() };
        assert_eq!(fault(k, "gfx90a", &clean), None);
        let spoiled = [
            Figures { scalar_spills: 1, ..clean.clone() },
            Figures { vector_spills: 1, ..clean.clone() },
            Figures { scratch: 4, ..clean.clone() },
            Figures { flat: 1, ..clean.clone() },
            Figures { lds: 16, ..clean },
        ];
        for f in spoiled {
            assert!(fault(k, "gfx90a", &f).is_some_and(|m| m.contains("sigmoid_f16 on gfx90a")), "{f:?}");
        }
    }

    #[test]
    fn a_record_is_of_every_target() {
        let of = |args: &[&str]| parse(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert!(of(&["--record"]).is_ok());
        assert!(of(&["--record", "--gfx", "gfx90a"]).is_err());
        assert_eq!(of(&["--family", "unary,norm"]).unwrap().families, [Family::Unary, Family::Norm]);
        assert!(of(&["--family", "unary,nrom"]).is_err());
    }

    #[test]
    fn a_record_of_one_family_keeps_the_others_rows() {
        let figures = |vgprs| Figures { vgprs, ..Figures::default() };
        let measured = |vgprs| -> Measured {
            let by_target = || BTreeMap::from([("gfx906".to_owned(), figures(vgprs))]);
            instances().iter().map(|k| (k.symbol.clone(), by_target())).collect()
        };
        let whole = render(&measured(5), Family::ALL, "", "19");
        let text = render(&measured(7), &[Family::Norm], &whole, "19");
        let row =
            |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap().split('\t').nth(3).unwrap();
        assert_eq!((row("sigmoid_f16"), row("layer_norm_wave_f16_f16")), ("5/0/0", "7/0/0"));
        assert_eq!(text.lines().count(), whole.lines().count());
    }
}
