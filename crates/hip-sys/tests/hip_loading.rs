//! Finding, rejecting and calling the HIP runtime and hipRTC, with stub libraries in place of ROCm's.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use hip_sys::{LoadErrorKind, Outcome, Search, Version, hip, hiprtc};
use standin_testing::{Scratch, have_compiler, isolated, skip};

const HIPRTC: &str = "int hiprtcVersion(int *major, int *minor) { *major = 9; *minor = 0; return 0; }";

#[test]
fn an_empty_folder_gives_a_quick_error_that_names_everything() {
    let folder = Scratch::new();
    let start = Instant::now();
    let error = hip::load_from(&Search::new().folder(folder.path())).unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    assert_eq!(*error.kind(), LoadErrorKind::NotFound);
    assert_eq!(error.sonames(), ["libamdhip64.so.7", "libamdhip64.so.6"]);
    let tried: Vec<_> = error.attempts().iter().map(|a| (a.path.clone(), a.outcome.clone())).collect();
    let absent = |name| (folder.path().join(name), Outcome::Absent);
    assert_eq!(tried, ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.8"].map(absent));
    let text = error.to_string();
    let folder = folder.path().display().to_string();
    for part in ["HIP runtime", "libamdhip64.so.7", "libamdhip64.so.6", &folder, "OPS_ROCM_PATH", "install"] {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn without_rocm_load_says_where_it_looked() {
    let folder = Scratch::new();
    isolated("without_rocm_load_says_where_it_looked", &[("OPS_ROCM_PATH", folder.path())], || {
        let start = Instant::now();
        let Err(error) = hip::load() else {
            return skip("this machine has ROCm");
        };
        assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
        let text = error.to_string();
        let folder = std::env::var("OPS_ROCM_PATH").unwrap();
        for part in
            ["libamdhip64.so.7 or libamdhip64.so.6", &folder, "ROCM_PATH is not set", "the system's loader"]
        {
            assert!(text.contains(part), "no {part:?} in {text:?}");
        }
        assert_eq!(hiprtc::load().unwrap_err(), error);
    });
}

#[test]
fn a_file_that_is_no_library_is_refused_with_the_loaders_reason() {
    let folder = Scratch::new();
    let file = folder.path().join("libamdhip64.so.7");
    std::fs::write(&file, "not a library, although it is long enough to be looked at by the system's loader")
        .unwrap();
    let error = hip::load_from(&Search::new().folder(folder.path())).unwrap_err();
    assert_eq!(*error.kind(), LoadErrorKind::Unusable);
    let Outcome::Refused(reason) = &error.attempts()[0].outcome else {
        panic!("{:?}", error.attempts());
    };
    assert!(reason.contains("invalid ELF header"), "{reason}");
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
}

#[test]
fn a_broken_library_in_the_chosen_folder_ends_the_search() {
    let (chosen, other) = (Scratch::new(), Scratch::new());
    let variables = [("OPS_ROCM_PATH", chosen.path()), ("ROCM_PATH", other.path())];
    if have_compiler() {
        std::fs::write(chosen.path().join("libamdhip64.so.6"), "broken").unwrap();
        other.hip(7, 1);
        isolated("a_broken_library_in_the_chosen_folder_ends_the_search", &variables, || {
            assert_eq!(*hip::load().unwrap_err().kind(), LoadErrorKind::Unusable);
        });
    }
}

#[test]
fn the_newest_major_of_a_folder_is_taken_and_reports_itself() {
    let folder = Scratch::new();
    if have_compiler() {
        let (seven, _) = (folder.hip(7, 3), folder.hip(6, 1));
        isolated("the_newest_major_of_a_folder_is_taken_and_reports_itself", &[], || {
            let lib = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            assert_eq!(
                (lib.path(), lib.soname(), lib.rocm_major()),
                (seven.as_path(), "libamdhip64.so.7", 7)
            );
            assert_eq!(lib.version(), Some(Version::new(7, 2, 26015)));
            let mut count = 0;
            // SAFETY: the stub writes one int.
            assert_eq!(unsafe { lib.hipGetDeviceCount(&mut count) }, Ok(hip::hipSuccess));
            assert_eq!(count, 3);
        });
    }
}

#[test]
fn an_earlier_folder_comes_before_a_newer_major() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (six, _) = (first.hip(6, 1), second.hip(7, 1));
        isolated("an_earlier_folder_comes_before_a_newer_major", &[], || {
            let lib = hip::load_from(&Search::new().folder(first.path()).folder(second.path())).unwrap();
            assert_eq!(lib.path(), six);
        });
    }
}

#[test]
fn an_installations_root_serves_as_well_as_its_lib_folder() {
    let root = Scratch::new();
    if have_compiler() {
        let lib = root.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::rename(root.hip(7, 1), lib.join("libamdhip64.so.7")).unwrap();
        let test = "an_installations_root_serves_as_well_as_its_lib_folder";
        isolated(test, &[("OPS_ROCM_PATH", root.path())], || {
            let (first, second) = (hip::load().unwrap(), hip::load().unwrap());
            assert!(first.path().ends_with("lib/libamdhip64.so.7"), "{first:?}");
            assert!(std::ptr::eq(first.path(), second.path()), "the second call opened it again");
        });
    }
}

#[test]
fn the_systems_loader_is_asked_last_and_its_find_has_a_full_path() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(6, 1);
        let test = "the_systems_loader_is_asked_last_and_its_find_has_a_full_path";
        isolated(test, &[("LD_LIBRARY_PATH", folder.path())], || {
            let folder = std::env::var_os("LD_LIBRARY_PATH").unwrap();
            let lib = hip::load_from(&Search::new().folder("/no/such/folder").system()).unwrap();
            if lib.rocm_major() == 7 {
                return skip("this machine has ROCm 7");
            }
            assert_eq!(lib.path(), std::path::Path::new(&folder).join("libamdhip64.so.6"));
        });
    }
}

#[test]
fn a_function_that_is_absent_is_an_error_of_its_own() {
    let folder = Scratch::new();
    if have_compiler() {
        let path = folder.hip(7, 1);
        isolated("a_function_that_is_absent_is_an_error_of_its_own", &[], || {
            let lib = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            // SAFETY: the stub lacks the function, so nothing is called.
            let error = unsafe { lib.hipDeviceSynchronize() }.unwrap_err();
            assert_eq!((error.symbol, &*error.library), ("hipDeviceSynchronize", path.as_path()));
            let text = error.to_string();
            assert!(text.contains("hipDeviceSynchronize") && text.contains("libamdhip64.so.7"), "{text}");
            use hip_sys::Functions as _;
            let missing = lib.missing();
            assert_eq!(missing.len(), hip::Functions::SYMBOLS.len() - 2);
            assert!(!missing.contains(&"hipGetDeviceCount"));
        });
    }
}

#[test]
fn hiprtc_is_of_the_runtimes_major() {
    let folder = Scratch::new();
    if have_compiler() {
        folder.hip(7, 1);
        folder.library("libhiprtc.so.6", HIPRTC, &[]);
        isolated("hiprtc_is_of_the_runtimes_major", &[], || {
            let search = Search::new().folder(folder.path());
            let hip = hip::load_from(&search).unwrap();
            let error = hiprtc::load_from(&hip, &search).unwrap_err();
            assert_eq!(
                (error.sonames(), error.kind()),
                (&["libhiprtc.so.7".into()][..], &LoadErrorKind::NotFound)
            );
            let seven = folder.library("libhiprtc.so.7", HIPRTC, &[]);
            let hiprtc = hiprtc::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((hiprtc.path(), hiprtc.version()), (seven.as_path(), Some(Version::new(9, 0, 0))));
        });
    }
}

#[test]
fn hiprtc_of_rocm_6_may_be_in_the_runtime_itself() {
    let folder = Scratch::new();
    if have_compiler() {
        let source = format!("int hipRuntimeGetVersion(int *v) {{ *v = 60443484; return 0; }}\n{HIPRTC}");
        let runtime = folder.library("libamdhip64.so.6", &source, &[]);
        isolated("hiprtc_of_rocm_6_may_be_in_the_runtime_itself", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            let hiprtc = hiprtc::load_from(&hip, &Search::new()).unwrap();
            assert_eq!((hiprtc.path(), hiprtc.soname()), (runtime.as_path(), "libamdhip64.so.6"));
        });
    }
}

#[test]
fn a_runtime_of_rocm_6_without_hiprtc_is_not_taken_for_it() {
    let (folder, other) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let runtime = folder.hip(6, 1);
        isolated("a_runtime_of_rocm_6_without_hiprtc_is_not_taken_for_it", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            let error = hiprtc::load_from(&hip, &Search::new()).unwrap_err();
            let text = error.to_string();
            let says = format!("{} does not export hiprtcVersion", runtime.display());
            assert!(text.contains(&says) && text.contains("install hipRTC of ROCm 6"), "{text}");
            // Other places are searched all the same.
            let elsewhere = other.library("libhiprtc.so.6", HIPRTC, &[]);
            let hiprtc = hiprtc::load_from(&hip, &Search::new().folder(other.path())).unwrap();
            assert_eq!(hiprtc.path(), elsewhere);
        });
    }
}

/// Opens a library as other code of the process would.
fn opened_by_others(file: &std::path::Path) {
    // SAFETY: the stubs have no initialisers.
    std::mem::forget(unsafe { libloading::Library::new(file) }.unwrap());
}

#[test]
fn a_resident_runtime_serves_although_the_search_has_another_major() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (six, _) = (first.hip(6, 1), second.hip(7, 1));
        let six_rtc = first.library("libhiprtc.so.6", HIPRTC, &[]);
        second.library("libhiprtc.so.7", HIPRTC, &[]);
        let test = "a_resident_runtime_serves_although_the_search_has_another_major";
        isolated(test, &[("OPS_ROCM_PATH", second.path())], || {
            opened_by_others(&six);
            let hip = hip::load().unwrap();
            assert_eq!((hip.path(), hip.rocm_major()), (six.as_path(), 6));
            assert_eq!(hip.soname(), "libamdhip64.so.6");
            let hiprtc = hiprtc::load().unwrap();
            assert_eq!((hiprtc.path(), hiprtc.rocm_major()), (six_rtc.as_path(), 6));
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            assert!(
                !maps.contains("libamdhip64.so.7") && !maps.contains("libhiprtc.so.7"),
                "opened all the same"
            );
        });
    }
}

/// As in PyTorch's packages.
#[test]
fn resident_libraries_are_known_by_their_sonames_whatever_their_files_are_called() {
    let (python, installed) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        installed.hip(7, 1);
        let unversioned = |file: std::path::PathBuf, name: &str| {
            let plain = python.path().join(name);
            std::fs::rename(file, &plain).unwrap();
            plain
        };
        let hip6 = unversioned(python.hip(6, 1), "libamdhip64.so");
        let rtc6 = unversioned(python.library("libhiprtc.so.6", HIPRTC, &[]), "libhiprtc.so");
        let comgr = "int amd_comgr_get_version(long *a, long *b) { *a = 2; *b = 8; return 0; }";
        let comgr2 = unversioned(python.library("libamd_comgr.so.2", comgr, &[]), "libamd_comgr.so");
        let test = "resident_libraries_are_known_by_their_sonames_whatever_their_files_are_called";
        isolated(test, &[("OPS_ROCM_PATH", installed.path())], || {
            opened_by_others(&hip6);
            assert_eq!(hip::load().unwrap().path(), hip6);
            let text = hiprtc::load().unwrap_err().to_string();
            assert!(text.contains("install hipRTC of ROCm 6"), "{text}");
            opened_by_others(&rtc6);
            let hiprtc = hiprtc::load().unwrap();
            assert_eq!((hiprtc.path(), hiprtc.rocm_major()), (rtc6.as_path(), 6));
            assert_eq!(hiprtc::comgr(&hiprtc), None);
            opened_by_others(&comgr2);
            assert_eq!(hiprtc::comgr(&hiprtc), Some(comgr2));
        });
    }
}

#[test]
fn two_majors_that_are_resident_are_an_error() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (seven, six) = (first.hip(7, 1), second.hip(6, 1));
        isolated("two_majors_that_are_resident_are_an_error", &[], || {
            opened_by_others(&seven);
            opened_by_others(&six);
            let error = hip::load_from(&Search::new().folder(first.path())).unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::TwoMajors { loaded: six.clone(), other: seven.clone() });
            let text = error.to_string();
            for path in [&seven, &six] {
                assert!(text.contains(&path.display().to_string()), "{text}");
            }
        });
    }
}

#[test]
fn a_runtime_that_the_process_holds_is_not_opened_again_from_elsewhere() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (held, _) = (first.hip(7, 1), second.hip(7, 2));
        isolated("a_runtime_that_the_process_holds_is_not_opened_again_from_elsewhere", &[], || {
            hip::load_from(&Search::new().folder(first.path())).unwrap();
            assert_eq!(hip::load_from(&Search::new().folder(second.path())).unwrap().path(), held);
        });
    }
}

/// As in a process in which PyTorch has loaded its own.
#[test]
fn a_choice_that_comes_too_late_is_noted() {
    let (held, chosen) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (held, _) = (held.hip(7, 1), chosen.hip(7, 2));
        isolated("a_choice_that_comes_too_late_is_noted", &[("OPS_ROCM_PATH", chosen.path())], || {
            opened_by_others(&held);
            let hip = hip::load().unwrap();
            assert_eq!(hip.path(), held);
            let (note, chosen) = (hip.note().unwrap(), std::env::var("OPS_ROCM_PATH").unwrap());
            assert!(note.contains(&chosen) && note.contains(&held.display().to_string()), "{note}");
            assert!(hip.copies().is_empty(), "{:?}", hip.copies());
        });
    }
}

#[test]
fn two_copies_of_one_version_are_found() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let (one, two) = (first.hip(7, 1), second.hip(7, 1));
        isolated("two_copies_of_one_version_are_found", &[], || {
            opened_by_others(&one);
            opened_by_others(&two);
            let hip = hip::load_from(&Search::new()).unwrap();
            assert_eq!((hip.path(), hip.copies()), (one.as_path(), vec![two.clone()]));
        });
    }
}

#[test]
fn a_library_that_would_load_a_second_runtime_is_refused() {
    let (first, second) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        first.hip(7, 1);
        // A copy with another soname is not replaced by the one that is loaded.
        let source = "int hipRuntimeGetVersion(int *v) { *v = 70226015; return 0; }";
        let other = second.library("libamdhip64.so.7.2.1", source, &[]);
        second.library("libhiprtc.so.7", HIPRTC, std::slice::from_ref(&other));
        isolated("a_library_that_would_load_a_second_runtime_is_refused", &[], || {
            let hip = hip::load_from(&Search::new().folder(first.path())).unwrap();
            let error = hiprtc::load_from(&hip, &Search::new().folder(second.path())).unwrap_err();
            let loaded = hip.path().to_path_buf();
            assert_eq!(*error.kind(), LoadErrorKind::TwoCopies { loaded, other: other.clone() });
            assert!(error.to_string().contains("a second copy of the HIP runtime"), "{error}");
        });
    }
}

#[test]
fn an_older_runtime_is_named() {
    let old = Scratch::new();
    if have_compiler() {
        let five = old.hip(5, 1);
        isolated("an_older_runtime_is_named", &[], || {
            let error = hip::load_from(&Search::new().folder(old.path())).unwrap_err();
            assert_eq!(*error.kind(), LoadErrorKind::NotFound);
            let named = format!("{} is of an unsupported version", five.display());
            assert!(error.to_string().contains(&named), "{error}");
        });
    }
}

#[test]
fn a_newer_runtime_comes_last_and_needs_all_functions() {
    let (newer, seven) = (Scratch::new(), Scratch::new());
    if have_compiler() {
        let eight = newer.path().join("libamdhip64.so.8");
        std::fs::rename(newer.hip(7, 1), &eight).unwrap();
        let old = seven.hip(7, 1);
        isolated("a_newer_runtime_comes_last_and_needs_all_functions", &[], || {
            let error = hip::load_from(&Search::new().folder(newer.path())).unwrap_err();
            let lacks = error.attempts().iter().find(|attempt| attempt.path == eight).unwrap();
            assert!(matches!(lacks.outcome, Outcome::Lacks(_)), "{lacks:?}");
            let both = Search::new().folder(newer.path()).folder(seven.path());
            assert_eq!(hip::load_from(&both).unwrap().path(), old);
        });
    }
}

#[test]
fn a_newer_runtime_with_all_functions_is_used() {
    let folder = Scratch::new();
    if have_compiler() {
        use hip_sys::Functions as _;
        let functions = hip::Functions::SYMBOLS.iter().map(|name| format!("int {name}() {{ return 0; }}\n"));
        let eight = folder.library("libamdhip64.so.8", &functions.collect::<String>(), &[]);
        isolated("a_newer_runtime_with_all_functions_is_used", &[], || {
            let hip = hip::load_from(&Search::new().folder(folder.path())).unwrap();
            assert_eq!((hip.path(), hip.rocm_major()), (eight.as_path(), 8));
        });
    }
}
