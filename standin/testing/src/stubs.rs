//! Stub libraries compiled with the C compiler.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether stubs can be compiled. If not, prints a note that is visible although the test passes.
pub fn have_compiler() -> bool {
    let have = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !have {
        skip("there is no C compiler to make stub libraries with");
    }
    have
}

/// A temporary folder, removed at the end of the test.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    #[allow(clippy::new_without_default)] // it makes a folder
    pub fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rocm-stubs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Scratch(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Compiles a library with this soname, linked with the libraries in `needs`.
    pub fn library(&self, soname: &str, source: &str, needs: &[PathBuf]) -> PathBuf {
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
    pub fn hip(&self, major: u32, devices: u32) -> PathBuf {
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
