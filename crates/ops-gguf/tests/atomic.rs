//! What atomic files replace, and what they leave behind.
#![cfg(target_os = "linux")]
use ops_gguf::AtomicFile;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

mod common;

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = common::scratch(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn links_are_followed_and_stay() {
    let folder = folder("atomic-links");
    fs::create_dir(folder.join("elsewhere")).unwrap();
    let [file, one, two, dangling] =
        ["elsewhere/file", "one", "two", "dangling"].map(|name| folder.join(name));
    fs::write(&file, "old").unwrap();
    symlink("elsewhere/file", &one).unwrap();
    symlink(&one, &two).unwrap();
    symlink("elsewhere/new", &dangling).unwrap();
    for link in [&one, &two, &dangling] {
        AtomicFile::save(link, b"new").unwrap();
        assert!(fs::symlink_metadata(link).unwrap().is_symlink(), "{}", link.display());
        assert_eq!(fs::read(link).unwrap(), b"new");
        fs::write(&file, "old").unwrap();
    }
    assert_eq!(names(&folder.join("elsewhere")), ["file", "new"]);
    assert_eq!(names(&folder), ["dangling", "elsewhere", "one", "two"]);
    let ring = folder.join("ring");
    symlink("ring", &ring).unwrap();
    assert!(AtomicFile::create(&ring).is_err());
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = folder("atomic-kinds");
    let fifo = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let [null, inner, socket] = ["null", "folder", "socket"].map(|name| folder.join(name));
    symlink("/dev/null", &null).unwrap();
    fs::create_dir(&inner).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let before = names(&folder);
    for path in [&fifo, &socket, &null, &inner, &PathBuf::from("/dev/null")] {
        let error = AtomicFile::create(path).err().expect("refused").to_string();
        let wanted = "it exists and is not a regular file; name a regular file or a new one";
        assert_eq!(error, format!("cannot create {}: {wanted}", path.display()));
    }
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(names(&folder), before, "nothing is left");
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let file = folder("atomic-mode").join("file");
    for mode in [0o600, 0o644, 0o664, 0o755] {
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        AtomicFile::save(&file, b"new").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}

#[test]
fn leftovers_of_ended_processes_are_removed() {
    let folder = folder("atomic-leftovers");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let (ended, own) = (ended.id(), std::process::id());
    let mut running = Command::new("sleep").arg("600").spawn().unwrap();
    let leftover = |process: u32| folder.join(format!(".file.{process}-0.tmp"));
    let also_own = folder.join(format!(".file.{own}-999.tmp"));
    let strangers = [format!(".other.{ended}-0.tmp"), format!(".file.{ended}-x.tmp"), ".file.tmp".to_owned()];
    for path in [leftover(ended), leftover(running.id()), also_own.clone()] {
        fs::write(path, "part").unwrap();
    }
    strangers.iter().for_each(|name| fs::write(folder.join(name), "part").unwrap());
    // An earlier process in a container may have had the same number, and used the same names.
    for number in 0..40 {
        fs::write(folder.join(format!(".file.{own}-{number}.tmp")), "part").unwrap();
    }
    let mut first = AtomicFile::create(folder.join("file")).unwrap();
    first.write_all(b"first").unwrap();
    assert!(!leftover(ended).exists() && !also_own.exists());
    assert!(leftover(running.id()).exists(), "its process still writes it");
    AtomicFile::save(folder.join("file"), b"second").unwrap();
    first.commit().expect("not taken for a leftover");
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"first");
    running.kill().unwrap();
    running.wait().unwrap();
    AtomicFile::save(folder.join("file"), b"third").unwrap();
    let mut left = strangers.to_vec();
    left.push("file".to_owned());
    left.sort();
    assert_eq!(names(&folder), left);
}

/// A file that another process holds a lock on is in use, even if `/proc` does not show the process.
#[test]
fn locked_files_are_in_use() {
    let folder = folder("atomic-locks");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let path = folder.join(format!(".file.{}-0.tmp", ended.id()));
    let file = fs::File::create(&path).unwrap();
    file.lock().unwrap();
    AtomicFile::save(folder.join("file"), b"new").unwrap();
    assert!(path.exists());
    // Not by dropping the file: a process that another test has just started may have it open until it runs its program.
    file.unlock().unwrap();
    AtomicFile::save(folder.join("file"), b"new").unwrap();
    assert!(!path.exists());
}
