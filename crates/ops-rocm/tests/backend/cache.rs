//! Compiled kernels on disk.
use crate::prepare::Messages;
use ops_core::ops::*;
use ops_core::{Backend, Result};
use ops_rocm::Rocm;
use standin_testing::{cache, folder as standin_folder, has_program, with_standin};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn silu(rocm: &Rocm) -> Result<f32> {
    let x = rocm.tensor(&[1], &[0.0f32])?;
    Ok(rocm.silu(rocm.add(x.as_ref(), x.as_ref())?.as_ref())?.as_ref().to_vec(rocm)?[0])
}

#[test]
fn kernels_are_compiled_once_and_found_again() {
    with_standin("cache::kernels_are_compiled_once_and_found_again", &[], |standin| {
        let folder = empty_folder("cache-found");
        let open = || Rocm::builder().cache(&folder).build().unwrap();
        let compiled = || standin.count("hiprtcCompileProgram");
        let rocm = open();
        assert_eq!(compiled(), 0, "nothing is compiled before it is used");
        assert_eq!(silu(&rocm).unwrap(), 0.0);
        assert_eq!(silu(&rocm.fork().unwrap()).unwrap(), 0.0);
        assert_eq!(compiled(), 2, "unary and binary kernels of one type");
        drop(rocm);
        assert_eq!(silu(&open()).unwrap(), 0.0);
        assert_eq!(compiled(), 2, "they were on disk");
        assert_eq!(silu(&Rocm::builder().no_cache().build().unwrap()).unwrap(), 0.0);
        assert_eq!(compiled(), 4);
    });
}

/// A key identifies hipRTC, which is the same file whatever C++ compiler the stand-in uses.
#[test]
fn compilers_behind_the_stand_in_do_not_share_a_folder() {
    let folder = |variables: &[(&str, &str)]| cache(variables);
    let cxx = |name| ("HIP_STANDIN_CXX", name);
    let folders = [
        folder(&[("HIP_STANDIN_WAVE", "64")]),
        folder(&[cxx("clang++-19")]),
        folder(&[cxx("clang++-19"), ("HIP_STANDIN_CXXFLAGS", "-O3")]),
        folder(&[("HIP_STANDIN_CXXFLAGS", "-O3")]),
    ];
    for (i, one) in folders.iter().enumerate() {
        assert!(folders[i + 1..].iter().all(|other| one != other), "{folders:?}");
    }
}

#[test]
fn damaged_foreign_and_empty_files_are_made_anew() {
    with_standin("cache::damaged_foreign_and_empty_files_are_made_anew", &[], |standin| {
        let folder = empty_folder("cache-damaged");
        let open = || Rocm::builder().cache(&folder).build().unwrap();
        silu(&open()).unwrap();
        let files = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let whole: Vec<(PathBuf, Vec<u8>)> =
            files().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        assert_eq!(whole.len(), 2);
        let foreign = whole[1].1.clone();
        type Damage<'d> = Box<dyn Fn(&[u8]) -> Vec<u8> + 'd>;
        let damages: [Damage<'_>; 4] = [
            Box::new(|_| Vec::new()),
            Box::new(|bytes| bytes[..bytes.len() / 2].to_vec()),
            Box::new(|bytes| {
                bytes.iter().enumerate().map(|(i, b)| b ^ u8::from(i == bytes.len() / 2)).collect()
            }),
            Box::new(|_| foreign.clone()),
        ];
        for damage in damages {
            let (path, bytes) = &whole[0];
            fs::write(path, damage(bytes)).unwrap();
            let before = standin.count("hiprtcCompileProgram");
            assert_eq!(silu(&open()).unwrap(), 0.0);
            assert_eq!(standin.count("hiprtcCompileProgram") - before, 1);
            assert_eq!(&fs::read(path).unwrap()[..48], &bytes[..48], "the file was written again");
        }
        assert_eq!(files().count(), 2, "no other file is left");
    });
}

/// Anyone can compute the name and the contents of a file that the cache would accept.
#[cfg(unix)]
#[test]
fn files_that_others_may_have_written_are_not_loaded() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    with_standin("cache::files_that_others_may_have_written_are_not_loaded", &[], |standin| {
        let folder = empty_folder("cache-planted");
        let open = || Rocm::builder().cache(&folder).build().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let compiled = |rocm: &Rocm| {
            let before = standin.count("hiprtcCompileProgram");
            assert_eq!(silu(rocm).unwrap(), 0.0);
            standin.count("hiprtcCompileProgram") - before
        };
        assert_eq!(compiled(&open()), 2);
        let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let copy = empty_folder("cache-planted-copy");
        fs::copy(&file, &copy).unwrap();
        let plants: [&dyn Fn(); 3] = [
            &|| mode(&file, 0o666),
            &|| fs::remove_file(&file).and_then(|()| symlink(&copy, &file)).unwrap(),
            &|| {
                fs::remove_file(&file).unwrap();
                assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
            },
        ];
        for plant in plants {
            plant();
            assert_eq!(compiled(&open()), 1);
            assert!(fs::symlink_metadata(&file).unwrap().is_file(), "it was written again");
            assert_eq!(compiled(&open()), 0);
        }

        mode(&folder, 0o777);
        let messages: &'static Messages = Box::leak(Box::default());
        tracing::subscriber::with_default(messages, || assert_eq!(compiled(&open()), 2));
        let (said, rocm) = (messages.take(), open());
        let prepared = rocm.prepare(|| silu(&rocm).map(drop)).unwrap();
        assert_eq!(prepared.compiled(), 2);
        let why = prepared.cache().unwrap_err();
        assert!(why.contains("cache-planted is not used: others may write it (mode 777;"), "{why}");
        assert_eq!(said.matches(why).count(), 1, "{said}");
        mode(&folder, 0o700);
        assert_eq!(compiled(&open()), 0);
    });
}

#[test]
fn a_folder_that_cannot_be_written_does_no_harm() {
    with_standin("cache::a_folder_that_cannot_be_written_does_no_harm", &[], |_| {
        let file = empty_folder("cache-is-a-file");
        fs::write(&file, "not a folder").unwrap();
        let rocm = Rocm::builder().cache(&file).build().unwrap();
        assert_eq!(silu(&rocm).unwrap(), 0.0);
        let prepared = Rocm::builder().cache(&file).build().unwrap();
        let prepared = prepared.prepare(|| silu(&prepared).map(drop)).unwrap();
        assert!(prepared.cache().unwrap_err().contains("it is not a folder"), "{prepared:?}");
        fs::remove_file(&file).unwrap();
    });
}

#[test]
fn threads_and_devices_share_a_folder() {
    with_standin("cache::threads_and_devices_share_a_folder", &[], |standin| {
        let folder = empty_folder("cache-shared");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let folder = &folder;
                scope.spawn(move || {
                    let rocm = Rocm::builder().cache(folder).build().unwrap();
                    std::thread::scope(|scope| {
                        for _ in 0..3 {
                            let queue = rocm.fork().unwrap();
                            scope.spawn(move || assert_eq!(silu(&queue).unwrap(), 0.0));
                        }
                    });
                });
            }
        });
        let compiled = standin.count("hiprtcCompileProgram");
        assert!((2..=6).contains(&compiled), "{compiled}: at most once for each device opened");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    });
}

#[test]
fn processes_share_a_folder() {
    const TEST: &str = "cache::processes_share_a_folder";
    const FOLDER: &str = "OPS_ROCM_TEST_CACHE";
    with_standin(TEST, &[], |standin| {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let rocm = Rocm::builder().cache(folder).build().unwrap();
            assert_eq!(silu(&rocm).unwrap(), 0.0);
            return;
        }
        // In each round one file is damaged, which the processes read and replace at the same time.
        let folder = empty_folder("cache-processes");
        for round in 0..3 {
            let process = |_| {
                let mut child = Command::new(std::env::current_exe().unwrap());
                child.args([TEST, "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, &folder);
                child.spawn().unwrap()
            };
            let children: Vec<_> = (0..6).map(process).collect();
            for mut child in children {
                assert!(child.wait().unwrap().success(), "round {round}");
            }
            let files: Vec<PathBuf> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(files.len(), 2, "two kernels and nothing else: {files:?}");
            assert_eq!(silu(&Rocm::builder().cache(&folder).build().unwrap()).unwrap(), 0.0);
            assert_eq!(standin.count("hiprtcCompileProgram"), 0, "the files they left are complete");
            fs::write(&files[0], "cut short").unwrap();
        }
    });
}

/// Distributions update comgr independently of hipRTC. Each process counts what it compiles.
#[test]
fn another_comgr_makes_other_kernels() {
    const TEST: &str = "cache::another_comgr_makes_other_kernels";
    const EXPECTED: &str = "OPS_ROCM_TEST_COMPILED";
    if !has_program(TEST, "g++") {
        return;
    }
    with_standin(TEST, &[], |standin| {
        if let Ok(expected) = std::env::var(EXPECTED) {
            assert_eq!(silu(&Rocm::new().unwrap()).unwrap(), 0.0);
            assert_eq!(standin.count("hiprtcCompileProgram").to_string(), expected);
            return;
        }
        let folder = empty_folder("cache-comgr");
        let (libraries, kernels) = (folder.join("lib"), folder.join("kernels"));
        fs::create_dir_all(&libraries).unwrap();
        for entry in fs::read_dir(standin_folder().unwrap()).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_name().to_string_lossy().starts_with("lib") {
                fs::copy(entry.path(), libraries.join(entry.file_name())).unwrap();
            }
        }
        let compiles = |expected: &str| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([TEST, "--exact", "--nocapture", "--test-threads=1"]).env(EXPECTED, expected);
            child.env("OPS_ROCM_PATH", &libraries).env("OPS_ROCM_CACHE", &kernels);
            assert!(child.status().unwrap().success(), "{expected} kernels are to be compiled");
        };
        compiles("2");
        compiles("0");
        let source = folder.join("comgr.c");
        let code =
            "void amd_comgr_get_version(unsigned long *a, unsigned long *b) { *a = 3; if (b) *b = 0; }";
        fs::write(&source, code).unwrap();
        let comgr = libraries.join("libamd_comgr.so.3");
        let mut compiler = Command::new("g++");
        compiler.args(["-x", "c", "-shared", "-fPIC", "-Wl,-soname,libamd_comgr.so.3", "-o"]);
        assert!(compiler.arg(&comgr).arg(&source).status().unwrap().success());
        compiles("2");
        compiles("0");
    });
}

#[test]
fn a_folder_keeps_what_was_used_last() {
    let limit = [("OPS_ROCM_CACHE_MIB", "0")];
    with_standin("cache::a_folder_keeps_what_was_used_last", &limit, |standin| {
        let folder = empty_folder("cache-limit");
        for _ in 0..2 {
            let before = standin.count("hiprtcCompileProgram");
            assert_eq!(silu(&Rocm::builder().cache(&folder).build().unwrap()).unwrap(), 0.0);
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the last file written");
            // The remaining file has the unary kernels, which are used second: the first unit evicts it.
            assert_eq!(standin.count("hiprtcCompileProgram") - before, 2);
        }
        let rocm = Rocm::builder().cache(&folder).build().unwrap();
        let prepared = rocm.prepare(|| silu(&rocm).map(drop)).unwrap();
        assert!(prepared.cache().unwrap_err().contains("keeps at most 0 MiB"), "{prepared:?}");
    });
}

#[test]
fn a_limit_that_is_no_number_is_an_error() {
    let limit = [("OPS_ROCM_CACHE_MIB", "1 GB")];
    with_standin("cache::a_limit_that_is_no_number_is_an_error", &limit, |_| {
        let text = Rocm::new().unwrap_err().to_string();
        assert!(text.contains("OPS_ROCM_CACHE_MIB") && text.contains("\"1 GB\""), "{text}");
    });
}
