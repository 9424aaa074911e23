//! Runs plans, and programs that include kernel headers.
use crate::standin;
use ops_kernels::index::{ErrorRecord, ErrorSlot};
use ops_kernels::{Arguments, Device, Family, Launch, Plan, Step, Tuning, source};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both wave sizes that kernels are built with.
pub(crate) const WAVES: [u32; 2] = [32, 64];

/// A device small enough that grid-stride loops take more than one step.
pub(crate) fn device(wave: u32) -> Device {
    Device { compute_units: 1, wave, matrix: None, dot4: None, tuning: Tuning::default() }
}

/// Compiles `text` unless a library of the same text and flags is there already.
fn compile(stem: &str, text: &str, flags: &[String]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (text, flags).hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("{stem}-{:016x}.so", hasher.finish()));
    if library.exists() {
        return library;
    }
    let cpp = library.with_extension("cpp");
    let partial = library.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&cpp, text).expect("the target folder is writable");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"];
    let out = Command::new(&compiler).args(flags).args(warnings).arg(&cpp).arg("-o").arg(&partial).output();
    let out = out.unwrap_or_else(|e| panic!("{compiler}: {e}"));
    let messages = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stem}: {messages}");
    assert!(messages.is_empty(), "{stem} compiles with warnings: {messages}");
    std::fs::rename(&partial, &library).expect("the target folder is writable");
    library
}

/// Compiles and runs a program that includes kernel headers; what it printed.
pub(crate) fn run_program(stem: &str, text: &str) -> String {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let flags = ["-std=c++17", "-O2", "-x", "c++", include].map(String::from);
    // The headers are not part of the text: their content is, so that a change compiles again.
    let headers = source::source(Family::Unary).replace("*/", "* /");
    let program = compile(stem, &format!("{text}\n/*{headers}*/"), &flags);
    let out = Command::new(&program).output().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    assert!(out.status.success(), "{stem} ended with {}", out.status);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Runs one launch; panics if the kernel misbehaves.
pub(crate) fn run<A: Arguments>(wave: u32, launch: &Launch, args: &A) {
    run_on(
        &Device { compute_units: 1, wave, matrix: None, dot4: None, tuning: Tuning::default() },
        launch,
        args,
    );
}

/// The same, with the device's matrix units.
pub(crate) fn run_on<A: Arguments>(device: &Device, launch: &Launch, args: &A) {
    let mut plan = Plan::default();
    plan.add((*launch, *args)).expect("the kernel takes these arguments");
    run_plan(device, &mut plan, [0; 2]);
}

/// Runs a plan with the addresses of its workspace and of counters.
pub(crate) fn run_plan(device: &Device, plan: &mut Plan, [workspace, counters]: [u64; 2]) {
    plan.place(workspace, counters);
    plan.steps().for_each(|step| run_step(device, step));
}

fn run_step(device: &Device, Step { launch, args }: Step<'_>) {
    if !launch.is_empty() {
        // SAFETY: a plan has compared the struct with the kernel's; the addresses in it are the test's own buffers.
        unsafe { standin::run(device, &launch, args) };
    }
}

/// An error record that kernels write.
pub(crate) type Record = Written<ErrorRecord>;

impl Record {
    pub(crate) fn slot(&self) -> Written<ErrorSlot> {
        Written(ErrorSlot::new(self.address()).into())
    }
}

/// A value that kernels write.
#[derive(Default)]
pub(crate) struct Written<T>(std::cell::UnsafeCell<T>);

impl<T: Copy> Written<T> {
    pub(crate) fn address(&self) -> u64 {
        self.0.get() as u64
    }
    pub(crate) fn get(&self) -> T {
        // SAFETY: no kernel runs any more.
        unsafe { *self.0.get() }
    }
}
