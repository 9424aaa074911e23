//! Compiles units of kernels with the hipRTC at hand and prints the seconds that each takes. Needs no GPU.
//!
//! `compile_units GFX[,GFX] THREADS UNIT ...`: the units of these names, or whose names begin so with a `*` at the end. Kernels
//! that are joined by `+` are compiled as if they were a unit. `tools/first-use.sh` gives it ROCm's libraries.

use ops_kernels::{Instance, Unit, source};
use ops_rocm::hip::{Compiler, Gfx, Hip, Source};
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
    let [targets, threads, names @ ..] = args else {
        return Err("want GFX[,GFX] THREADS UNIT ...".into());
    };
    let threads: usize = threads.parse().map_err(|_| format!("{threads} is not a number of threads"))?;
    let hip = Hip::load().map_err(|e| e.to_string())?;
    for target in targets.split(',') {
        let gfx = Gfx::parse(target).map_err(|e| e.to_string())?;
        let units =
            Unit::all().into_iter().filter(|unit| unit.runs_on(target) && wanted(names, &unit.name()));
        let units = units.map(|unit| (unit.name(), unit.text(target)));
        let own = names.iter().filter_map(|name| Some((name.clone(), joined(name)?)));
        let units: Vec<(String, String)> = units.chain(own).collect();
        let started = Instant::now();
        let queue = Mutex::new(units.iter());
        std::thread::scope(|scope| {
            let work = || {
                // Each has a compiler of its own, which would otherwise take one source at a time.
                let Ok(compiler) = Compiler::load(&hip) else { return };
                loop {
                    let next = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
                    let Some((name, text)) = next else { break };
                    compile(&compiler, &gfx, name, text);
                }
            };
            (0..threads).for_each(|_| drop(scope.spawn(work)));
        });
        println!(
            "{gfx}: {} units in {:.2} s on {threads} threads",
            units.len(),
            started.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn wanted(names: &[String], unit: &str) -> bool {
    names.iter().any(|name| name.strip_suffix('*').map_or(name == unit, |start| unit.starts_with(start)))
}

/// The text of kernels that are joined by `+`.
fn joined(name: &str) -> Option<String> {
    let kernels: Vec<&Instance> = name.split('+').filter_map(ops_kernels::by_symbol).collect();
    Some(source::unit(kernels.first()?.family, kernels))
}

fn compile(compiler: &Compiler, gfx: &Gfx, name: &str, text: &str) {
    let options = source::hiprtc_options(gfx.full()).unwrap_or_default();
    let options: Vec<&str> =
        options.iter().map(String::as_str).filter(|o| !o.starts_with("--offload-arch")).collect();
    let started = Instant::now();
    let result = compiler.compile(Source { name: &format!("{name}.hip"), text, headers: &[] }, gfx, &options);
    let seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(_) => println!("{gfx} {name} {seconds:.2} s"),
        Err(error) => println!("{gfx} {name} {seconds:.2} s: {error}"),
    }
}
