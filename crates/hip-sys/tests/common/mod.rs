//! Stub libraries compiled with the C compiler, and tests that each run in their own process. An opened library stays open,
//! so two tests in one process would see each other's libraries.

#![allow(dead_code)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the test's body in a child process with these variables and none of the user's ROCm variables.
pub(crate) fn isolated(test: &str, variables: &[(&str, &Path)], body: impl FnOnce()) {
    const INSIDE: &str = "HIP_SYS_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().expect("the test program has a path"));
    child.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    child.env_remove("OPS_ROCM_PATH").env_remove("ROCM_PATH").envs(variables.iter().copied());
    let output = child.output().expect("the test program can be started");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "in a separate process:\n{said}");
}

/// Whether stubs can be compiled. If not, prints a note that is visible although the test passes.
pub(crate) fn have_compiler() -> bool {
    let have = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !have {
        skip("there is no C compiler to make stub libraries with");
    }
    have
}

/// Reports that the test was skipped. Written directly to the terminal, past the capture of test output.
pub(crate) fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// A temporary folder, removed at the end of the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rocm-stubs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles a library with this soname, linked with the libraries in `needs`.
    pub(crate) fn library(&self, soname: &str, source: &str, needs: &[PathBuf]) -> PathBuf {
        let (code, library) = (self.0.join(format!("{soname}.c")), self.0.join(soname));
        std::fs::write(&code, source).expect("a source can be written");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed"]).arg(format!("-Wl,-soname,{soname}"));
        for needed in needs {
            cc.arg(format!("-Wl,-rpath,{}", needed.parent().expect("a file is in a folder").display()));
        }
        let output = cc.arg("-o").arg(&library).arg(&code).args(needs).output().expect("cc can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    }

    /// A HIP runtime that reports its version and `devices` devices.
    pub(crate) fn hip(&self, major: u32, devices: u32) -> PathBuf {
        self.library(
            &format!("libamdhip64.so.{major}"),
            &format!(
                "int hipRuntimeGetVersion(int *v) {{ *v = {major} * 10000000 + 2 * 100000 + 26015; return 0; }}
                 int hipGetDeviceCount(int *n) {{ *n = {devices}; return 0; }}"
            ),
            &[],
        )
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
