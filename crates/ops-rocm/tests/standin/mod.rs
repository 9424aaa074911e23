//! The stand-in for ROCm's libraries, and tests that each run in their own process: faults are injected, and
//! objects counted, for the whole process.

use std::ffi::{CString, c_char, c_int};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use hip_sys::Search;
use ops_rocm::hip::{Device, DeviceInfo, Hip, Stream};

/// Runs the body with the stand-in in a separate process, and checks that it leaks nothing and misuses
/// nothing.
pub(crate) fn with_standin(test: &str, variables: &[(&str, &str)], body: impl FnOnce(&Standin)) {
    const INSIDE: &str = "OPS_ROCM_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        let standin = Standin::load();
        body(&standin);
        assert_eq!(standin.live(), 0, "the test leaves {} objects alive", standin.live());
        assert_eq!(standin.misuses(), 0, "the test misused the runtime");
        return;
    }
    let Some(folder) = folder() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test}: the stand-in for ROCm cannot be built: cargo xtask standin"
        );
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {test}: the stand-in for ROCm cannot be built (cargo xtask standin)"
        );
        return;
    };
    let mut child = Command::new(std::env::current_exe().expect("the test program has a path"));
    child
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env("OPS_ROCM_PATH", folder);
    if let Some(cache) = cache(variables) {
        child.env("OPS_ROCM_CACHE", cache);
    }
    let output = child.envs(variables.iter().copied()).output().expect("the test program can be started");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "in a separate process:\n{said}");
}

/// The folder of compiled kernels: the user's choice, otherwise one below the target folder. Kernels made by
/// another compiler or with other options go into a separate subfolder, because a kernel's key identifies
/// hipRTC and not the C++ compiler behind the stand-in's. `None` leaves the user's choice unchanged if that
/// is to have no cache.
pub(crate) fn cache(variables: &[(&str, &str)]) -> Option<PathBuf> {
    let chosen = std::env::var_os("OPS_ROCM_CACHE");
    if chosen.as_ref().is_some_and(|path| path.is_empty()) {
        return None;
    }
    let folder =
        chosen.map_or_else(|| concat!(env!("CARGO_TARGET_TMPDIR"), "/rocm-cache").into(), PathBuf::from);
    let setting = |name| {
        let own = variables.iter().find(|(variable, _)| *variable == name);
        own.map_or_else(|| std::env::var(name).unwrap_or_default(), |(_, value)| (*value).to_owned())
    };
    let compiler = ["HIP_STANDIN_CXX", "HIP_STANDIN_CXXFLAGS"].map(setting);
    if compiler.iter().all(String::is_empty) {
        return Some(folder);
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || "+-=.,_".contains(c) { c } else { '_' };
    Some(folder.join(compiler.join("_").chars().map(plain).collect::<String>()))
}

/// Whether a program can be started. If not, the test that needs it is skipped; in CI that is a failure.
#[allow(dead_code)]
pub(crate) fn has_program(test: &str, program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{test}: {program} cannot be started");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {program} cannot be started");
    }
    found
}

/// The folder of the stand-in: the user's choice, otherwise built here.
pub(crate) fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let is_standin = |path: PathBuf| path.join("libamdhip64.so.7").is_file().then_some(path);
    // In this process: `cargo xtask standin` would wait for any other cargo that is running.
    let build = || {
        let built = hip_standin::Build::new(false).and_then(|build| Ok(build.libraries()?.to_path_buf()));
        match built {
            Ok(folder) => is_standin(folder),
            Err(message) => {
                let _ = writeln!(std::io::stderr(), "{message}");
                None
            }
        }
    };
    FOLDER
        .get_or_init(|| match std::env::var_os("OPS_ROCM_PATH") {
            Some(path) => is_standin(path.into()),
            None => build(),
        })
        .as_ref()
}

/// The stand-in's own functions.
pub(crate) struct Standin {
    pub(crate) hip: Hip,
    library: libloading::Library,
}

#[allow(dead_code)]
impl Standin {
    fn load() -> Standin {
        let hip = Hip::load_from(&Search::standard()).expect("the stand-in loads");
        // SAFETY: the library is already open.
        let library = unsafe { libloading::Library::new(hip.lib().path()) }.expect("the stand-in loads");
        Standin { hip, library }
    }

    pub(crate) fn device(&self) -> Device {
        let devices = DeviceInfo::all(&self.hip).expect("the stand-in has a device");
        Device::new(&self.hip, devices[0].clone())
    }

    pub(crate) fn device_and_stream(&self) -> (Device, Stream) {
        let device = self.device();
        let stream = device.stream().expect("the device has a stream");
        (device, stream)
    }

    /// Makes the n-th call of a function from now fail, as in `hipMalloc:2`; an empty text makes nothing
    /// fail.
    pub(crate) fn fail(&self, spec: &str) {
        let text = CString::new(spec).unwrap();
        // SAFETY: this is the function's declaration in the stand-in's header.
        let result = unsafe {
            let function =
                self.library.get::<unsafe extern "C" fn(*const c_char) -> c_int>("standin_fail").unwrap();
            function(text.as_ptr())
        };
        assert_eq!(result, 0, "{spec:?} is not a list of faults");
    }

    /// Number of calls of a function so far.
    pub(crate) fn count(&self, function: &str) -> u64 {
        self.ask("standin_counts", function)
    }

    /// Number of live objects of all kinds.
    pub(crate) fn live(&self) -> u64 {
        // SAFETY: as for `fail`.
        unsafe {
            let function =
                self.library.get::<unsafe extern "C" fn(*const c_char) -> u64>("standin_live").unwrap();
            function(std::ptr::null())
        }
    }

    /// Number of live objects of one kind.
    pub(crate) fn live_of(&self, kind: &str) -> u64 {
        self.ask("standin_live", kind)
    }

    pub(crate) fn misuses(&self) -> u64 {
        // SAFETY: as for `fail`.
        unsafe { self.library.get::<unsafe extern "C" fn() -> u64>("standin_misuses").unwrap()() }
    }

    /// Marks a stream as being captured by its owner, or as no longer captured.
    pub(crate) fn capture(&self, stream: hip_sys::hip::hipStream_t, captured: bool) {
        // SAFETY: as for `fail`.
        let result = unsafe {
            let function = self
                .library
                .get::<unsafe extern "C" fn(hip_sys::hip::hipStream_t, c_int) -> c_int>("standin_capture")
                .unwrap();
            function(stream, c_int::from(captured))
        };
        assert_eq!(result, 0, "no live stream");
    }

    fn ask(&self, function: &str, text: &str) -> u64 {
        let text = CString::new(text).unwrap();
        // SAFETY: as for `fail`.
        unsafe {
            self.library.get::<unsafe extern "C" fn(*const c_char) -> u64>(function).unwrap()(text.as_ptr())
        }
    }
}
