//! Finding hipBLASLt for a HIP runtime, with stub libraries in place of ROCm's.
#![cfg(target_os = "linux")]

use hip_sys::{LoadErrorKind, Search, hip};
use standin_testing::{Scratch, have_compiler, isolated};

const HIPBLASLT: &str = "int hipblasLtDestroy(void *handle) { return handle == 0 ? 3 : 0; }";

#[test]
fn with_rocm_7_it_is_of_major_1() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(7, 1);
        folder.library("libhipblaslt.so.0", HIPBLASLT, &[]);
        isolated("with_rocm_7_it_is_of_major_1", &[], || {
            let search = Search::new().folder(folder.path());
            let hip = hip::load_from(&search).unwrap();
            let error = hipblaslt_sys::load_from(&hip, &search).unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::NotFound);
            assert!(error.to_string().contains("cannot load hipBLASLt (libhipblaslt.so.1)"), "{error}");
            let file = folder.library("libhipblaslt.so.1", HIPBLASLT, &[]);
            let hipblaslt = hipblaslt_sys::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((hipblaslt.path(), hipblaslt.version()), (file.as_path(), None));
            // SAFETY: the stub takes a null handle.
            let status = unsafe { hipblaslt.hipblasLtDestroy(std::ptr::null_mut()) };
            assert_eq!(status, Ok(hipblaslt_sys::HIPBLAS_STATUS_INVALID_VALUE));
            // SAFETY: the stub lacks the function, so nothing is called.
            let error = unsafe { hipblaslt.hipblasLtCreate(std::ptr::null_mut()) }.unwrap_err();
            assert_eq!((error.symbol, &*error.library), ("hipblasLtCreate", file.as_path()));
        });
    }
}

#[test]
fn with_rocm_6_it_is_of_major_0() {
    let folder = Scratch::new();
    if have_compiler() {
        let six = folder.hip(6, 1);
        folder.library("libhipblaslt.so.1", HIPBLASLT, std::slice::from_ref(&six));
        let zero = folder.library("libhipblaslt.so.0", HIPBLASLT, std::slice::from_ref(&six));
        isolated("with_rocm_6_it_is_of_major_0", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            assert_eq!(hipblaslt_sys::load_from(&hip, &Search::new()).unwrap().path(), zero);
        });
    }
}

/// Debian builds major 1 with ROCm 6.
#[test]
fn with_rocm_6_it_may_be_of_major_1() {
    let folder = Scratch::new();
    if have_compiler() {
        let six = folder.hip(6, 1);
        let one = folder.library("libhipblaslt.so.1", HIPBLASLT, std::slice::from_ref(&six));
        isolated("with_rocm_6_it_may_be_of_major_1", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            let debian = hipblaslt_sys::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((debian.path(), debian.rocm_major()), (one.as_path(), 6));
        });
    }
}

#[test]
fn one_that_brings_another_runtime_is_refused() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        runtime.hip(6, 1);
        let seven = other.hip(7, 1);
        runtime.library("libhipblaslt.so.1", HIPBLASLT, std::slice::from_ref(&seven));
        isolated("one_that_brings_another_runtime_is_refused", &[], || {
            let hip = hip::load_from(&Search::new().folder(runtime.path())).unwrap();
            let error = hipblaslt_sys::load_from(&hip, &Search::new()).unwrap_err();
            assert!(matches!(error.kind(), LoadErrorKind::TwoMajors { .. }), "{error}");
        });
    }
}
