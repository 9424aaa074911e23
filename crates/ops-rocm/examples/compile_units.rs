//! Compiles kernel units with the installed hipRTC and prints the seconds that each takes. Needs no GPU.
//!
//! `compile_units [--out DIR] GFX[,GFX] THREADS UNIT ...`: compiles the units of these names. `NAME*` means
//! every unit whose name starts with NAME, and `FAMILY?` every unit of the family. Kernels joined by `+` are
//! compiled as if they were a unit, and so is a file whose name ends in `.hip`. GFX may be `recorded`: the
//! devices whose registers are recorded, with the features that they report by default. `--out` stores each
//! code object as `DIR/GFX/UNIT.hsaco`, GFX without features. `tools/lab/first-use.sh` and
//! `tools/lab/hiprtc-registers.sh` run it with ROCm's libraries.

use ops_kernels::target::recorded_with_hiprtc;
use ops_kernels::{GfxTarget, Instance, Unit, source};
use ops_rocm::hip::{Compiler, Gfx, Hip, Source};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compile_units: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let (out, args) = match args {
        [flag, out, rest @ ..] if flag == "--out" => (Some(PathBuf::from(out)), rest),
        all => (None, all),
    };
    let [targets, threads, names @ ..] = args else {
        return Err("usage: [--out DIR] GFX[,GFX] THREADS UNIT ...".into());
    };
    let threads: usize = threads.parse().map_err(|_| format!("{threads} is not a number of threads"))?;
    let hip = Hip::load().map_err(|e| e.to_string())?;
    let targets: Vec<String> =
        if targets == "recorded" { recorded() } else { targets.split(',').map(str::to_owned).collect() };
    for target in &targets {
        let gfx = Gfx::parse(target).map_err(|e| e.to_string())?;
        let out = out.as_ref().map(|out| out.join(gfx.name()));
        if let Some(out) = &out {
            std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
        }
        let units = sources(names, target)?;
        let started = Instant::now();
        let queue = Mutex::new(units.iter());
        let work = || -> Result<(), String> {
            // Each has its own compiler, since a compiler handles one source at a time.
            let compiler = Compiler::load(&hip).map_err(|e| e.to_string())?;
            loop {
                let next = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
                let Some((name, text)) = next else { return Ok(()) };
                compile(&compiler, &gfx, name, text, out.as_deref())?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
        })?;
        println!(
            "{gfx}: {} units in {:.2} s on {threads} threads",
            units.len(),
            started.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// The devices whose registers are recorded with hipRTC, as they report themselves by default.
fn recorded() -> Vec<String> {
    let name = |target: &GfxTarget| {
        let sramecc = if target.sramecc { ":sramecc+" } else { "" };
        let xnack = if target.xnack { ":xnack-" } else { "" };
        format!("{}{sramecc}{xnack}", target.name)
    };
    recorded_with_hiprtc().map(name).collect()
}

/// Names and texts of the sources to compile. A name that matches nothing is an error; units that the target
/// lacks are left out.
fn sources(names: &[String], target: &str) -> Result<Vec<(String, String)>, String> {
    let all = Unit::all();
    let mut out = Vec::new();
    for name in names {
        let matches = |unit: &Unit| match (name.strip_suffix('*'), name.strip_suffix('?')) {
            (Some(start), _) => unit.name().starts_with(start),
            (None, Some(family)) => unit.family().name() == family,
            (None, None) => unit.name() == *name,
        };
        let mut found = all.iter().filter(|unit| matches(unit)).peekable();
        if found.peek().is_some() {
            out.extend(
                found.filter(|unit| unit.runs_on(target)).map(|unit| (unit.name(), unit.text(target))),
            );
        } else {
            out.push((stem(name).to_owned(), text(name)?));
        }
    }
    Ok(out)
}

fn stem(name: &str) -> &str {
    let file = name.strip_suffix(".hip").and_then(|path| path.rsplit('/').next());
    file.unwrap_or(name)
}

/// The text of a file, or of kernels joined by `+`.
fn text(name: &str) -> Result<String, String> {
    if name.ends_with(".hip") {
        return std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"));
    }
    let kernel = |name| ops_kernels::by_symbol(name).ok_or_else(|| format!("no unit or kernel `{name}`"));
    let kernels: Vec<&Instance> = name.split('+').map(kernel).collect::<Result<_, _>>()?;
    Ok(source::unit(kernels[0].family, kernels))
}

fn compile(compiler: &Compiler, gfx: &Gfx, name: &str, text: &str, out: Option<&Path>) -> Result<(), String> {
    let options = source::hiprtc_options(gfx.full()).unwrap_or_default();
    let options: Vec<&str> =
        options.iter().map(String::as_str).filter(|o| !o.starts_with("--offload-arch")).collect();
    let started = Instant::now();
    let code = compiler
        .compile(Source { name: &format!("{name}.hip"), text, headers: &[] }, gfx, &options)
        .map_err(|error| format!("{gfx} {name}: {error}"))?;
    println!("{gfx} {name} {:.2} s", started.elapsed().as_secs_f64());
    let Some(out) = out else { return Ok(()) };
    let path = out.join(format!("{name}.hsaco"));
    std::fs::write(&path, code.to_bytes()).map_err(|e| format!("{}: {e}", path.display()))
}
