//! Finding rocBLAS for a HIP runtime, with stub libraries in place of ROCm's.
#![cfg(target_os = "linux")]

use hip_sys::{LoadErrorKind, Search, Version, hip};
use standin_testing::{Scratch, have_compiler, isolated};

const ROCBLAS: &str = r#"
    #include <string.h>
    int rocblas_get_version_string(char *text, unsigned long size) { strncpy(text, "5.2.1.ab12cd", size); return 0; }"#;

#[test]
fn rocblas_is_of_the_runtimes_major() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(7, 1);
        folder.library("librocblas.so.4", ROCBLAS, &[]);
        isolated("rocblas_is_of_the_runtimes_major", &[], || {
            let search = Search::new().folder(folder.path());
            let hip = hip::load_from(&search).unwrap();
            let error = rocblas_sys::load_from(&hip, &search).unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::NotFound);
            assert!(error.to_string().contains("cannot load rocBLAS (librocblas.so.5)"), "{error}");
            let file = folder.library("librocblas.so.5", ROCBLAS, &[]);
            let rocblas = rocblas_sys::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((rocblas.path(), rocblas.version()), (file.as_path(), Some(Version::new(5, 2, 1))));
            // SAFETY: the stub lacks the function, so nothing is called.
            let error = unsafe { rocblas.rocblas_create_handle(std::ptr::null_mut()) }.unwrap_err();
            assert_eq!((error.symbol, &*error.library), ("rocblas_create_handle", file.as_path()));
        });
    }
}

#[test]
fn the_runtimes_own_folder_comes_before_the_search() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        runtime.hip(6, 1);
        let own = runtime.library("librocblas.so.4", ROCBLAS, &[]);
        other.library("librocblas.so.4", ROCBLAS, &[]);
        isolated("the_runtimes_own_folder_comes_before_the_search", &[], || {
            let hip = hip::load_from(&Search::new().folder(runtime.path())).unwrap();
            let search = Search::new().folder(other.path());
            assert_eq!(rocblas_sys::load_from(&hip, &search).unwrap().path(), own);
        });
    }
}

#[test]
fn a_rocblas_that_brings_another_runtime_is_refused_and_closed() {
    let (runtime, other) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (seven, six) = (runtime.hip(7, 1), other.hip(6, 1));
        runtime.library("librocblas.so.5", ROCBLAS, std::slice::from_ref(&six));
        isolated("a_rocblas_that_brings_another_runtime_is_refused_and_closed", &[], || {
            let hip = hip::load_from(&Search::new().folder(runtime.path())).unwrap();
            let error = rocblas_sys::load_from(&hip, &Search::new()).unwrap_err();
            let LoadErrorKind::TwoMajors { loaded, other } = error.kind() else { panic!("{error:?}") };
            let mut both = [loaded, other];
            both.sort_by_key(|path| path.to_string_lossy().ends_with('6'));
            assert_eq!(both, [&seven, &six]);
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(!maps.contains("libamdhip64.so.6"), "it is still open");
        });
    }
}
