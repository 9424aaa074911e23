//! `cargo xtask kernels`: compiles every kernel instance for every target with clang, and compares the registers, LDS
//! and occupancy of each with the committed `kernels/resources.tsv`.
//!
//! It fails on scratch memory, on spilled registers (including scalar registers spilled to lanes of a vector register), on
//! FLAT memory instructions, and on any figure that differs from the table. `--record` rewrites the table; with `--gfx`, the columns of these targets. `kernels.json`, next to the code objects,
//! describes how to launch them. Requires `clang-19`, `lld-19` and `llvm-19` (`CLANG`, `OBJDUMP` and `READELF` name others), but
//! no ROCm.
//!
//! `--changed`, which CI uses, compiles what [`select`] says; with `--all`, everything. Either leaves the code objects for gfx942, one per
//! unit, where the build script of `ops-rocm` finds them (`OPS_ROCM_AOT_OBJECTS=target/code-objects`).
//!
//! `--newer-clang` does the same for the targets that clang 19 does not know, with `clang-21` and
//! `kernels/resources-newer-clang.tsv`. `--hiprtc DIR` reads code objects compiled by hipRTC, see [`hiprtc`].
mod compile;
mod disassembly;
mod document;
mod figures;
mod fingerprint;
mod hiprtc;
mod layouts;
mod metadata;
mod occupancy;
mod record;
mod runs;
mod select;
mod table;

use crate::page::root;
use compile::compile_all;
use figures::{Measured, fault};
use fingerprint::of_sources;
use ops_kernels::source::Family;
use ops_kernels::{instances, target};
use record::Record;
use runs::Runs;
use select::State;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
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
    /// With `--changed`: what is compiled of each family.
    selected: Option<Vec<(Family, State)>>,
    /// Where units for [`select::AOT`] are left for the build script, if so.
    objects: Option<PathBuf>,
    clang: String,
    tools: Tools,
}

impl Options {
    /// Whether a family is compiled for a target, if it has kernels for it.
    fn includes(&self, family: Family, target: &str) -> bool {
        let selected = self.selected.as_ref();
        let state = selected.and_then(|list| list.iter().find(|(of, _)| *of == family));
        self.families.contains(&family)
            && self.targets.iter().any(|t| t == target)
            && state.is_none_or(|(_, state)| state.includes(target))
    }
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
    options.selected.iter().for_each(|states| select::report(states));
    let measured = compile_all(&options)?;
    if options.families.len() == Family::ALL.len() && options.objects.is_none() {
        table::write(&options.clang, &version, &options.targets, &options.out)?;
    }
    let mut faults = faults(&measured, &options);
    if options.rewrite {
        if !faults.is_empty() {
            return Err(report("not recorded", &faults));
        }
        options.record.write(&measured, &options, &version)?;
        if options.record.is_standard() {
            let all_targets = options.record.targets.iter().all(|t| options.targets.iter().any(|of| of == t));
            Runs::read().note(&options.families, all_targets)?;
        }
    } else {
        faults.extend(not_recorded(&options));
        faults.extend(options.record.differences(&measured, &options, &version)?);
    }
    if !faults.is_empty() {
        return Err(report("kernels violate a limit or differ from the record", &faults));
    }
    let compiled = measured.values().map(BTreeMap::len).sum::<usize>();
    println!(
        "{compiled} kernels compiled ({} instances, {} targets) in {:.0} s, no scratch, no register spilled, no FLAT instruction: {}",
        measured.len(),
        measured.values().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>().len(),
        started.elapsed().as_secs_f64(),
        options.out.display()
    );
    Ok(())
}

/// Families whose recorded registers belong to other sources.
fn not_recorded(options: &Options) -> Vec<String> {
    let runs = Runs::read();
    let changed = |family: &Family| runs.fingerprint(*family).is_some_and(|f| f != of_sources(*family));
    let of_table = options.families.iter().filter(|_| options.record.is_standard());
    let name = |family: &Family| {
        let name = family.name();
        format!(
            "{name}: its sources are not those of the recorded run: `cargo xtask kernels --record --family {name}`"
        )
    };
    of_table.copied().filter(changed).map(|family| name(&family)).collect()
}

const OPTIONS: &str = "--changed, --all, --gfx LIST, --family LIST, --out DIR, --newer-clang, --hiprtc DIR, --record, --document";

fn parse(args: &[String]) -> Result<Options, String> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let newer = has("--newer-clang");
    let changed = has("--changed");
    if changed && (newer || ["--record", "--gfx", "--hiprtc"].iter().any(|flag| has(flag))) {
        return Err(
            "kernels: --changed chooses the targets itself; it may be combined with --all, --family and --out"
                .into(),
        );
    }
    let all = has("--all");
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
        selected: None,
        objects: None,
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
            "--newer-clang" | "--changed" | "--all" => {}
            "--record" => options.rewrite = true,
            other => return Err(format!("kernels: no option `{other}`; the options are {OPTIONS}")),
        }
    }
    if changed {
        options.objects = Some(target_folder().join("code-objects"));
        options.selected = (!all).then(select::states);
    }
    if let Some(unknown) = options.targets.iter().find(|t| target::wave_of(t).is_none()) {
        return Err(format!(
            "kernels: `{unknown}` is not a gfx9 to gfx12 target; known targets: {}",
            options.record.targets.join(", ")
        ));
    }
    Ok(options)
}

/// Cargo's target folder.
fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from))
}

fn family_of(name: &str) -> Result<Family, String> {
    let known = || Family::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
    let found = Family::ALL.iter().find(|f| f.name() == name.trim());
    found.copied().ok_or_else(|| format!("kernels: no family `{name}`; the families are {}", known()))
}

const INSTALL: &str = "install it with `apt-get install clang-19 lld-19`, or name another in CLANG";

/// What `clang --version` prints.
fn version_text(clang: &str) -> Result<String, String> {
    let out =
        Command::new(clang).arg("--version").output().map_err(|e| format!("{clang}: {e}; {INSTALL}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The version alone, such as `19.1.7`.
fn compiler_version(clang: &str) -> Result<String, String> {
    let text = version_text(clang)?;
    let version = text.split("version ").nth(1).and_then(|v| v.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| format!("{clang} --version does not name a version; {INSTALL}"))
}

/// Faults that a record does not excuse: missing kernels, spilled registers, scratch, wrong LDS sizes.
fn faults(measured: &Measured, options: &Options) -> Vec<String> {
    let mut out = Vec::new();
    for k in instances().iter().filter(|k| options.families.contains(&k.family)) {
        let by_target = measured.get(&k.symbol);
        let targets = options.targets.iter().filter(|t| k.runs_on(t) && options.includes(k.family, t));
        for target in targets {
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

    #[test]
    fn options_are_read() {
        let of = |args: &[&str]| parse(&args.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert!(of(&["--record"]).is_ok());
        assert_eq!(of(&["--record", "--gfx", "gfx90a"]).unwrap().targets, ["gfx90a"]);
        assert!(of(&["--gfx", "gfx9999"]).is_err());
        assert_eq!(of(&["--family", "unary,norm"]).unwrap().families, [Family::Unary, Family::Norm]);
        assert!(of(&["--changed", "--record"]).is_err());
        let all = of(&["--changed", "--all"]).unwrap();
        assert!(all.selected.is_none() && all.includes(Family::Norm, "gfx906"));
        let changed = of(&["--changed"]).unwrap();
        assert!(changed.includes(Family::Norm, select::AOT) && changed.objects.is_some());
        assert!(of(&["--family", "unary,nrom"]).is_err());
        assert_eq!(of(&["--record", "--newer-clang"]).unwrap().targets, ["gfx950"]);
    }
}
