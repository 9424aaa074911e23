//! Runs units of kernels, compiled for the host, on `tests/host/engine.cpp`.
use crate::rtc;
use libloading::{Library, Symbol};
use ops_kernels::index::{ErrorRecord, ErrorSlot};
use ops_kernels::{Arguments, Device, Family, Launch, Matrix, Plan, Step, Tuning, Unit, source};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

type Run = unsafe extern "C" fn(*const c_void);
type EngineLaunch =
    unsafe extern "C" fn(Run, *const c_void, *const u32, u32, u64, u32, *mut c_char, usize) -> c_int;

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

static ENGINE: LazyLock<Library> = LazyLock::new(|| {
    let text = include_str!("../host/engine.cpp")
        .replace("#include \"../../include/ops_host.h\"", &source::HOST_HEADER.replace("#pragma once", ""));
    // With this model, a thread-local variable is read without a call.
    let tls = "-ftls-model=initial-exec";
    let flags = ["-std=c++17", "-O2", "-fPIC", "-shared", tls].map(String::from);
    // SAFETY: the library has no constructors with effects beyond its own memory.
    unsafe { Library::new(compile("engine", &text, &flags)) }.expect("the engine loads")
});

type Slot = Arc<OnceLock<Library>>;
type Key = (Unit, u32, Option<Matrix>);
static MODULES: LazyLock<Mutex<HashMap<Key, Slot>>> = LazyLock::new(Mutex::default);

/// The unit compiled for a wave size and matrix units, built on first use, other units not held up meanwhile.
fn module(unit: Unit, wave: u32, matrix: Option<Matrix>) -> Slot {
    let slot =
        MODULES.lock().unwrap_or_else(|e| e.into_inner()).entry((unit, wave, matrix)).or_default().clone();
    slot.get_or_init(|| {
        // The library is removed as soon as it is open.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("{}-{wave}-{matrix:?}-{}.so", unit.name(), std::process::id()));
        std::fs::write(&path, rtc::compile(unit, wave, matrix)).expect("the target folder is writable");
        // SAFETY: as for the engine; ops_host_bind stores the pointer, which lives as long as the engine.
        unsafe {
            let library = Library::new(&path).expect("the module loads");
            let _ = std::fs::remove_file(&path);
            let api: Symbol<'_, unsafe extern "C" fn(u32) -> *const c_void> =
                ENGINE.get(b"engine_api").expect("the engine has an api");
            let bind: Symbol<'_, unsafe extern "C" fn(*const c_void)> =
                library.get(b"ops_host_bind").expect("a module can be bound");
            bind(api(wave));
            library
        }
    });
    slot
}

/// Runs one launch; panics with the engine's message when the kernel misbehaves.
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
    let wave = device.wave;
    let k = launch.instance;
    if launch.is_empty() {
        return;
    }
    let matrix = device.matrix.filter(|_| k.family.needs_matrix());
    let slot = module(Unit::of(k), wave, matrix);
    let library = slot.get().expect("built above");
    let mut message = [0 as c_char; 200];
    // SAFETY: a plan has compared the struct with the kernel's; the addresses in it are the test's own buffers.
    let failed = unsafe {
        let run = library.get::<Run>(format!("{}__run", k.symbol).as_bytes()).expect("the instance exists");
        let engine: Symbol<'_, EngineLaunch> = ENGINE.get(b"engine_launch").expect("the engine launches");
        let args = args.as_ptr().cast();
        engine(*run, args, launch.grid.as_ptr(), launch.block, 0, wave, message.as_mut_ptr(), message.len())
    };
    // SAFETY: the engine leaves the last byte zero.
    let message = unsafe { CStr::from_ptr(message.as_ptr()) };
    assert_eq!(failed, 0, "{} on wave {wave}, {matrix:?}: {message:?}", k.symbol);
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
