//! `ops info`: describes this build and this machine.
use super::gpus::Gpus;
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use serde::Serialize;
use std::io::Write;

/// The machine that results were measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) os: &'static str,
    pub(crate) arch: &'static str,
    pub(crate) cpu: String,
    pub(crate) features: Vec<&'static str>,
    pub(crate) threads: usize,
    /// Why there are fewer threads than processors, if the system refused some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads_refused: Option<&'static str>,
}

impl Machine {
    /// This machine.
    pub(crate) fn here() -> Self {
        let backend = ops_cpu::Cpu::new();
        Machine {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpu: cpu_model().unwrap_or_else(|| "unknown".into()),
            features: [features(), ops_simd::Isa::matrix_units()].concat(),
            threads: backend.threads(),
            threads_refused: backend.threads_refused(),
        }
    }
}

#[derive(Serialize)]
struct Info {
    version: &'static str,
    #[serde(flatten)]
    machine: Machine,
    backends: Vec<Backend>,
    rocm: Gpus,
}

#[derive(Serialize)]
struct Backend {
    name: &'static str,
    available: bool,
    about: String,
}

fn backends(gpus: &Gpus) -> Vec<Backend> {
    let host = |name, about: &str| Backend { name, available: true, about: about.to_owned() };
    let (available, about) = gpus.summary();
    vec![
        host("cpu", "threaded and vectorised"),
        host("reference", "plain loops in f64, the reference for all checks"),
        Backend { name: "rocm", available, about },
    ]
}

pub(super) fn run(json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let rocm = Gpus::here();
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::here(),
        backends: backends(&rocm),
        rocm,
    };
    if json {
        json_line(&info, out)?;
        return Ok(Outcome::Fine);
    }
    let Machine { os, arch, cpu, features, threads, threads_refused } = &info.machine;
    writeln!(out, "ops {}", info.version)?;
    writeln!(out, "machine   {os} {arch}, {cpu}")?;
    writeln!(
        out,
        "features  {}",
        if features.is_empty() { "none detected".into() } else { features.join(" ") }
    )?;
    match threads_refused {
        None => match std::env::var("RAYON_NUM_THREADS") {
            Ok(set) => writeln!(out, "threads   {threads}: RAYON_NUM_THREADS is {set}")?,
            Err(_) => writeln!(out, "threads   {threads}")?,
        },
        Some(why) => writeln!(
            out,
            "threads   {threads}: the system starts no more ({why}); raise the limit of the process or container"
        )?,
    }
    for (i, Backend { name, available, about }) in info.backends.iter().enumerate() {
        let title = if i == 0 { "backends" } else { "" };
        let missing = if *available { "" } else { "not available: " };
        writeln!(out, "{title:<8}  {name:<9}  {missing}{about}")?;
    }
    info.rocm.write(out)?;
    Ok(Outcome::Fine)
}

/// The processor's name, if `/proc/cpuinfo` has it.
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name").or_else(|| field("Processor")).filter(|name| !name.is_empty())
}

/// The names of those features in the list that the processor has.
macro_rules! detected {
    ($detect:ident: $($feature:tt)+) => {{
        let mut found = Vec::new();
        $(if std::arch::$detect!($feature) { found.push($feature); })+
        found
    }};
}

fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    return detected!(is_x86_feature_detected: "sse4.2" "avx" "avx2" "fma" "f16c" "avxvnni" "avx512f" "avx512bw" "avx512vl"
        "avx512vnni" "avx512bf16" "avx512fp16");
    #[cfg(target_arch = "aarch64")]
    return detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "bf16" "i8mm" "sve");
    #[allow(unreachable_code)]
    Vec::new()
}
