//! Files that only this user can have written.
//!
//! The cache holds code that is executed, and anyone can compute the name and the contents of a file that it would
//! accept. So a file is read only if it is a regular file that belongs to this user and that nobody else can write, and
//! a folder is used only if the same holds of it. What is checked is the file that was opened, not a path.
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The start of the names of files that are being written.
pub(crate) const PART: &str = "part-";

/// Why a folder is not used: its contents may be another user's. A folder that does not exist has no problem.
pub(crate) fn folder_problem(folder: &Path) -> Option<String> {
    let problem = match fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => foreign(&meta),
        Ok(_) => Some("it is not a folder".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    };
    problem.map(|why| format!("{} is not used: {why}", folder.display()))
}

/// Reads a file of at most `max` bytes in a folder; returns it with its contents.
///
/// # Errors
/// [`ErrorKind::NotFound`]; the folder or the file may be another user's; it is not a regular file or larger.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<(File, Vec<u8>)> {
    let (file, meta) = open(path)?;
    if meta.len() > max {
        return Err(io::Error::other(format!("it has {} bytes; at most {max} are read", meta.len())));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    (&file).take(max).read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

/// Opens a file for reading, without waiting for anything and without following a link.
///
/// # Errors
/// As for [`read`].
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    if let Some(why) = path.parent().and_then(folder_problem) {
        return Err(io::Error::other(why));
    }
    let file = open_no_follow(path)?;
    let meta = file.metadata()?;
    let problem = if meta.is_file() { foreign(&meta) } else { Some("it is not a regular file".to_owned()) };
    match problem {
        None => Ok((file, meta)),
        Some(why) => Err(io::Error::other(why)),
    }
}

/// Writes a file under a temporary name and then renames it, so that readers see it whole or not at all. Creates its
/// folder.
///
/// # Errors
/// The folder may be another user's; errors of the file system.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("it is not in a folder"))?;
    create_folder(folder)?;
    if let Some(why) = folder_problem(folder) {
        return Err(io::Error::other(why));
    }
    let (mut file, part) = create_part(folder)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _gone = fs::remove_file(&part);
    }
    written
}

/// A new file, with a name that no other process uses. A process that died may have left one with our number.
fn create_part(folder: &Path) -> io::Result<(File, std::path::PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!("{PART}{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&part) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, part)),
        }
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
fn open_no_follow(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::other("it is a symbolic link"),
        _ => error,
    })
}

#[cfg(not(unix))]
fn open_no_follow(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Why another user may have written this.
#[cfg(unix)]
fn foreign(meta: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: it only returns a number.
    let user = unsafe { libc::geteuid() };
    let mode = meta.mode() & 0o7777;
    if meta.uid() != user {
        return Some(format!("it belongs to user {}, and this process runs as user {user}", meta.uid()));
    }
    (mode & 0o022 != 0).then(|| format!("others may write it (mode {mode:03o}; chmod go-w removes that)"))
}

#[cfg(not(unix))]
fn foreign(_: &Metadata) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use std::process::Command;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The reason why a file is not read.
    fn refused(path: &Path) -> String {
        read(path, 100).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = folder.join("made/on/demand/a");
        write(&file, b"text").unwrap();
        assert_eq!(read(&file, 4).unwrap().1, b"text");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(refused(&folder.join("b")), io::Error::from_raw_os_error(libc::ENOENT).to_string());
        assert!(read(&file, 3).unwrap_err().to_string().contains("it has 4 bytes; at most 3"));
    }

    #[test]
    fn files_that_others_can_write_are_not_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = folder.join("a");
        write(&file, b"text").unwrap();
        for mode in [0o666, 0o620, 0o602] {
            set_mode(&file, mode);
            assert!(refused(&file).contains("others may write it"), "{mode:o}");
        }
        set_mode(&file, 0o644);
        for mode in [0o777, 0o770, 0o1777] {
            set_mode(folder, mode);
            let why = folder_problem(folder).unwrap();
            assert!(why.contains(&format!("mode {mode:03o}")) && why.contains("chmod go-w"), "{why}");
            assert_eq!(refused(&file), why);
            assert_eq!(write(&file, b"new").unwrap_err().to_string(), why);
        }
        set_mode(folder, 0o755);
        assert_eq!(read(&file, 100).unwrap().1, b"text");
    }

    #[test]
    fn files_and_folders_of_other_users_are_not_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = folder.join("a");
        write(&file, b"text").unwrap();
        if chown(&file, Some(12345), None).is_err() {
            println!("skipped: only root can give files away");
        } else {
            assert!(refused(&file).contains("it belongs to user 12345"), "{}", refused(&file));
            chown(&file, Some(0), None).unwrap();
            chown(folder, Some(12345), None).unwrap();
            assert!(refused(&file).contains("it belongs to user 12345"), "{}", refused(&file));
            assert!(write(&file, b"new").is_err());
        }
    }

    #[test]
    fn links_pipes_devices_and_folders_are_not_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        write(&folder.join("a"), b"text").unwrap();
        symlink("a", folder.join("link")).unwrap();
        symlink("/dev/zero", folder.join("device")).unwrap();
        symlink("nowhere", folder.join("dangling")).unwrap();
        for link in ["link", "device", "dangling"] {
            assert_eq!(refused(&folder.join(link)), "it is a symbolic link");
        }
        let pipe = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(refused(&pipe), "it is not a regular file");
        fs::create_dir(folder.join("folder")).unwrap();
        assert_eq!(refused(&folder.join("folder")), "it is not a regular file");
        assert!(refused(Path::new("/dev/zero")).contains("is not"));
        // Writing replaces what is there, and follows no link.
        for name in ["link", "dangling", "pipe"] {
            write(&folder.join(name), b"new").unwrap();
            assert_eq!(read(&folder.join(name), 100).unwrap().1, b"new");
        }
        assert_eq!(read(&folder.join("a"), 100).unwrap().1, b"text");
        assert!(!folder.join("nowhere").exists());
    }

    #[test]
    fn a_planted_temporary_file_is_not_written() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let target = folder.join("target");
        fs::write(&target, "untouched").unwrap();
        for number in 0..2000 {
            symlink(&target, folder.join(format!("{PART}{}-{number}", std::process::id()))).unwrap();
        }
        write(&folder.join("a"), b"text").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"untouched");
        assert_eq!(read(&folder.join("a"), 100).unwrap().1, b"text");
    }
}
