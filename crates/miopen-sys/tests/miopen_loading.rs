//! Finding MIOpen for a HIP runtime, with stub libraries in place of ROCm's.
#![cfg(target_os = "linux")]

use hip_sys::{LoadErrorKind, Search, Version, hip};
use standin_testing::{Scratch, have_compiler, isolated};

const MIOPEN: &str = "int miopenGetVersion(unsigned long *a, unsigned long *b, unsigned long *c) \
                      { *a = 3; *b = 4; *c = 1; return 0; }";

#[test]
fn miopen_is_taken_from_the_runtimes_folder_only() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    let variables = [("OPS_ROCM_PATH", runtime.path()), ("ROCM_PATH", other.path())];
    if have_compiler() {
        runtime.hip(7, 1);
        other.library("libMIOpen.so.1", MIOPEN, &[]);
        isolated("miopen_is_taken_from_the_runtimes_folder_only", &variables, || {
            let error = miopen_sys::load().unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::NotFound);
            assert!(error.to_string().contains("cannot load MIOpen (libMIOpen.so.1)"), "{error}");
            let folder = std::env::var("OPS_ROCM_PATH").unwrap();
            assert!(error.advice().contains(&folder), "{}", error.advice());
        });
    }
}

#[test]
fn miopen_reports_its_version_and_lacks_functions_one_by_one() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(6, 1);
        let file = folder.library("libMIOpen.so.1", MIOPEN, &[]);
        isolated("miopen_reports_its_version_and_lacks_functions_one_by_one", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            let miopen = miopen_sys::load_from(&hip).unwrap();
            assert_eq!((miopen.path(), miopen.version()), (file.as_path(), Some(Version::new(3, 4, 1))));
            assert_eq!(miopen.rocm_major(), 6);
            // SAFETY: the stub lacks the function, so nothing is called.
            let error = unsafe { miopen.miopenCreate(std::ptr::null_mut()) }.unwrap_err();
            assert_eq!((error.symbol, &*error.library), ("miopenCreate", file.as_path()));
        });
    }
}
