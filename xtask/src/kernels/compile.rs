//! Compiles kernels with clang, on all cores, and reads the figures of each.
use super::figures::{Figures, Measured};
use super::{Options, disassembly, metadata, select, version_text};
use ops_kernels::Unit;
use ops_kernels::source::{self, Family};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What one compiler process compiles.
struct Job<'o> {
    target: &'o str,
    family: Family,
    /// Only this unit of the family.
    unit: Option<Unit>,
}

/// Compiles the families for the targets on all cores.
pub(super) fn compile_all(options: &Options) -> Result<Measured, String> {
    let jobs = jobs(options);
    let targets = options.targets.iter().map(|target| options.out.join(target));
    for folder in targets.chain(options.objects.clone()) {
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let compiler = version_text(&options.clang)?;
    let done = AtomicUsize::new(0);
    let mut measured = Measured::new();
    let work = |job: &Job<'_>| {
        let started = Instant::now();
        let compiled = match (job.unit, &options.objects) {
            (Some(unit), Some(objects)) => compile_unit(options, &compiler, objects, job.target, unit),
            _ => compile_family(options, job.target, job.family),
        };
        let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = started.elapsed().as_secs_f64();
        let name = job.unit.map_or_else(|| job.family.name().to_owned(), |unit| unit.name());
        println!("[{finished}/{}] {} {name} {seconds:.1} s", jobs.len(), job.target);
        compiled
    };
    in_parallel(&jobs, work, |job, figures| {
        for (kernel, f) in figures {
            measured.entry(kernel).or_default().insert(job.target.to_owned(), f);
        }
    })?;
    Ok(measured)
}

/// All families for their targets. Those for the target of `aot` are compiled as programs load them, by unit.
fn jobs(options: &Options) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    for &family in &options.families {
        for target in options.targets.iter().filter(|t| family.runs_on(t) && options.includes(family, t)) {
            if target == select::AOT && options.objects.is_some() {
                let units = Unit::all().into_iter().filter(|u| u.family() == family && u.runs_on(target));
                jobs.extend(units.map(|unit| Job { target, family, unit: Some(unit) }));
            } else {
                jobs.push(Job { target, family, unit: None });
            }
        }
    }
    jobs
}

/// Runs the jobs on all cores and passes each result to `each`. The error contains the messages of all that failed.
pub(super) fn in_parallel<J: Sync, R>(
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

/// Compiles one family for one target into the folder of code objects.
fn compile_family(options: &Options, target: &str, family: Family) -> Result<Vec<(String, Figures)>, String> {
    let output = options.out.join(target).join(format!("{}.hsaco", family.name()));
    let messages = compile(options, target, family.name(), &source::source_for(family, target), &output)?;
    figures_of(options, target, &messages, output)
}

/// Compiles one unit for one target under the name by which the build script of `ops-rocm` finds it. An object that already exists
/// is not recompiled.
fn compile_unit(
    options: &Options,
    compiler: &str,
    objects: &Path,
    target: &str,
    unit: Unit,
) -> Result<Vec<(String, Figures)>, String> {
    let name = unit.object_name(compiler, target).ok_or_else(|| format!("{target}: unknown target"))?;
    let object = objects.join(name);
    let remarks = object.with_extension("remarks");
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    if !(object.exists() && remarks.exists()) {
        let part = object.with_extension(format!("{}.part", std::process::id()));
        let messages = compile(options, target, &unit.name(), &unit.text(target), &part)?;
        std::fs::write(&remarks, messages).map_err(at(&remarks))?;
        // An interrupted run must not leave half an object under this name.
        std::fs::rename(&part, &object).map_err(at(&part))?;
    }
    let messages = std::fs::read_to_string(&remarks).map_err(at(&remarks))?;
    figures_of(options, target, &messages, object)
}

/// Compiles a text for a target; returns the compiler's remarks. Warnings are errors.
fn compile(options: &Options, target: &str, name: &str, text: &str, output: &Path) -> Result<String, String> {
    let input = options.out.join(target).join(format!("{name}.hip"));
    std::fs::write(&input, text).map_err(|e| format!("{}: {e}", input.display()))?;
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
        .arg(output)
        .output()
        .map_err(|e| format!("{}: {e}", options.clang))?;
    let messages = String::from_utf8_lossy(&out.stderr);
    let complaints = messages.lines().filter(|l| l.contains("error:") || l.contains("warning:"));
    let complaints: Vec<&str> = complaints.filter(|l| !l.contains("code object v6")).take(20).collect();
    if !out.status.success() || !complaints.is_empty() {
        let what = if complaints.is_empty() { messages.trim().to_owned() } else { complaints.join("\n") };
        return Err(format!("{name} does not compile cleanly for {target}:\n{what}"));
    }
    Ok(messages.into_owned())
}

/// The figures of a code object, from the compiler's remarks and from the object's own metadata.
fn figures_of(
    options: &Options,
    target: &str,
    remarks: &str,
    output: PathBuf,
) -> Result<Vec<(String, Figures)>, String> {
    let mut figures = read_remarks(remarks);
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
}
