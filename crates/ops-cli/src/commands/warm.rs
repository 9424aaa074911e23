//! `ops warm`: compiles the kernels that a model will use, so that its first tokens do not wait for the compiler.
use crate::args::{Activations, Choice, Common, WarmArgs};
use crate::exit::{Failure, Outcome};
use crate::output::{Progress, json_line};
use decoder::Decoder;
use ops_core::{bf16, f16};
use ops_gguf::Outline;
use ops_rocm::{KernelOrigin, LoadedUnit, Rocm};
use serde::Serialize;
use std::io::Write;

mod decoder;

#[derive(Serialize)]
struct Line<'a> {
    unit: &'a str,
    origin: &'static str,
    seconds: f64,
}

pub(super) fn run(common: Common, args: &WarmArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if common.backend != Choice::Rocm {
        return Err(Failure::Usage("only GPUs have kernels to compile: add --backend rocm".into()));
    }
    let outline = Outline::open(&args.model).map_err(|error| Failure::Usage(error.to_string()))?;
    let decoder = Decoder::of(&outline)?;
    let rocm = Rocm::new().map_err(|error| Failure::Usage(error.to_string()))?;
    let steps = || -> ops_core::Result<()> {
        // A prompt, then one token after it.
        for (tokens, earlier) in args.tokens.iter().map(|n| (*n, 0)).chain([(1, args.context)]) {
            match args.dtype {
                Activations::F32 => decoder.step::<f32, Rocm>(&rocm, tokens, earlier)?,
                Activations::F16 => decoder.step::<f16, Rocm>(&rocm, tokens, earlier)?,
                Activations::Bf16 => decoder.step::<bf16, Rocm>(&rocm, tokens, earlier)?,
            }
        }
        Ok(())
    };
    let mut progress = Progress::new(common.progress);
    let report = |unit: &LoadedUnit, done: usize, all: usize| {
        progress.step(done, all, &format!("{} {:.1} s", unit.name, unit.time.as_secs_f64()));
    };
    let prepared = rocm.prepare_with(steps, report).map_err(Failure::Op)?;
    progress.clear();
    if common.json {
        for unit in prepared.units() {
            let line = Line { unit: &unit.name, origin: word(unit.origin), seconds: unit.time.as_secs_f64() };
            json_line(&line, out)?;
        }
        return Ok(Outcome::Fine);
    }
    for unit in prepared.units() {
        writeln!(out, "{:<32} {:>5.2} s  {}", unit.name, unit.time.as_secs_f64(), word(unit.origin))?;
    }
    match prepared.cache() {
        Ok(folder) => writeln!(out, "{prepared}; kept in {}", folder.display())?,
        Err(why) => writeln!(out, "{prepared}; not cached: {why}")?,
    }
    Ok(Outcome::Fine)
}

fn word(origin: KernelOrigin) -> &'static str {
    match origin {
        KernelOrigin::Loaded => "loaded before",
        KernelOrigin::Embedded => "from this program",
        KernelOrigin::Cached => "from the cache",
        KernelOrigin::Compiled => "compiled",
        KernelOrigin::CompiledByHelper => "compiled by a helper",
    }
}
