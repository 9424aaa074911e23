//! Finding RCCL for a HIP runtime, with stub libraries in place of ROCm's.
#![cfg(target_os = "linux")]

use hip_sys::{LoadErrorKind, Search, Version, hip};
use standin_testing::{Scratch, have_compiler, isolated};

const RCCL: &str = "int ncclGetVersion(int *code) { *code = 22703; return 0; }";

#[test]
fn rccl_of_another_major_version_is_not_opened() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    let variables = [("OPS_ROCM_PATH", runtime.path()), ("ROCM_PATH", other.path())];
    if have_compiler() {
        runtime.hip(7, 1);
        other.hip(6, 1);
        other.library("librccl.so.1", RCCL, &[]);
        isolated("rccl_of_another_major_version_is_not_opened", &variables, || {
            let error = rccl_sys::load().unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::Unusable);
            let text = error.to_string();
            assert!(text.contains("cannot load RCCL (librccl.so.1)"), "{text}");
            assert!(text.contains("it belongs to") && text.contains("libamdhip64.so.6"), "{text}");
            let folder = std::env::var("OPS_ROCM_PATH").unwrap();
            assert!(error.advice().contains(&folder), "{}", error.advice());
            assert!(!std::fs::read_to_string("/proc/self/maps").unwrap().contains("librccl"));
        });
    }
}

/// As ROCm's Python packages, and Nix, which has a folder for each library.
#[test]
fn rccl_may_be_in_another_folder_than_the_runtime() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    let variables = [("OPS_ROCM_PATH", runtime.path()), ("ROCM_PATH", other.path())];
    if have_compiler() {
        runtime.hip(7, 1);
        other.library("librccl.so.1", RCCL, &[]);
        isolated("rccl_may_be_in_another_folder_than_the_runtime", &variables, || {
            let file = std::path::PathBuf::from(std::env::var_os("ROCM_PATH").unwrap()).join("librccl.so.1");
            assert_eq!(rccl_sys::load().unwrap().path(), file);
        });
    }
}

#[test]
fn rccl_reports_its_version_and_lacks_functions_one_by_one() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(6, 1);
        let file = folder.library("librccl.so.1", RCCL, &[]);
        isolated("rccl_reports_its_version_and_lacks_functions_one_by_one", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            let rccl = rccl_sys::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((rccl.path(), rccl.version()), (file.as_path(), Some(Version::new(2, 27, 3))));
            assert_eq!(rccl.rocm_major(), 6);
            // SAFETY: the stub lacks the function, so nothing is called.
            let error = unsafe { rccl.ncclGroupStart() }.unwrap_err();
            assert_eq!((error.symbol, &*error.library), ("ncclGroupStart", file.as_path()));
        });
    }
}
