//! Whether a model fits the memory.
use std::fs;
use std::path::{Path, PathBuf};

/// What a model will be held in.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// Files are read into memory, not mapped.
    pub read: bool,
    /// The backend copies weights to its own layout in host memory.
    pub packed: bool,
}

/// Refuses a model that does not fit the memory, before it is loaded. `files` are all files with its weights.
///
/// Checks nothing where the system does not say how much memory is available.
///
/// # Errors
/// The files are larger than the available memory.
pub fn check(files: &[PathBuf], copies: Copies) -> Result<(), String> {
    let Some(available) = available(Path::new("/")) else { return Ok(()) };
    compare(size(files), copies, available)
}

/// Refuses a model whose weights do not fit a device that has this much memory, before its files are read. `None` is not known, and
/// checks nothing.
///
/// # Errors
/// The files are larger.
pub fn check_device(files: &[PathBuf], memory: Option<u64>) -> Result<(), String> {
    let needed = size(files);
    match memory {
        Some(memory) if memory < needed => Err(format!(
            "the weights need {} of memory on the device, but it has {}; take a smaller or a quantized model, or another backend",
            gib(needed),
            gib(memory)
        )),
        _ => Ok(()),
    }
}

/// The size of all files.
fn size(files: &[PathBuf]) -> u64 {
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |meta| meta.len());
    files.iter().map(size).fold(0, u64::saturating_add)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn compare(size: u64, copies: Copies, available: u64) -> Result<(), String> {
    let copy = |held| if held { size } else { 0 };
    let needed = copy(copies.read).saturating_add(copy(copies.packed));
    if needed <= available {
        return Ok(());
    }
    let what = match copies {
        Copies { read: true, packed: true } => "its files and a copy of the weights in the backend's layout",
        Copies { read: true, .. } => "its files",
        Copies { .. } => "a copy of the weights in the backend's layout",
    };
    let advice = if copies.read { "; --mmap needs less, if the command has it" } else { "" };
    let (needed, available) = (gib(needed), gib(available));
    Err(format!("the model needs {needed} of memory for {what}, but {available} are available{advice}"))
}

/// Memory that this process can still use: the system's, or less if a control group limits it. `root` is `/` except in tests.
fn available(root: &Path) -> Option<u64> {
    let system = number(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemAvailable:")?;
    let system = system.saturating_mul(1 << 10);
    Some(groups(root).into_iter().fold(system, u64::min))
}

/// What the control groups of this process leave, of both versions.
fn groups(root: &Path) -> Vec<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut left = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (mounts, limit, usage, cached): (&[_], _, _, _) = match controllers {
            "" => (&["", "unified"], "memory.max", "memory.current", "inactive_file"),
            list if list.split(',').any(|name| name == "memory") => {
                (&["memory"], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            }
            _ => continue,
        };
        for mount in mounts {
            let mount = root.join("sys/fs/cgroup").join(mount);
            // The limits of all groups above count, too. In a container, the group's name may be that outside it.
            for group in Path::new(group.trim_start_matches('/')).ancestors() {
                let read = |name: &str| fs::read_to_string(mount.join(group).join(name)).ok();
                let count = |name: &str| read(name)?.trim().parse::<u64>().ok();
                let (Some(limit), Some(usage)) = (count(limit), count(usage)) else { continue };
                // The system frees the cache of files when memory runs short.
                let cached = read("memory.stat").and_then(|stat| number(&stat, cached)).unwrap_or(0);
                left.push(limit.saturating_sub(usage.saturating_sub(cached)));
            }
        }
    }
    left
}

/// The number after a name.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files in place of `/`.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }
    fn available_in(files: &[(&str, &str)]) -> Option<u64> {
        available(system(files).path())
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n");

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(available_in(&[]), None);
        assert_eq!(available_in(&[MEMORY]), Some(1_024_000));
        let second = [
            MEMORY,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/memory.current", "300000\n"),
            ("sys/fs/cgroup/a/memory.stat", "file 7\ninactive_file 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "300000\n"),
        ];
        assert_eq!(available_in(&second), Some(300_000));
        let first = [
            MEMORY,
            ("proc/self/cgroup", "5:cpu:/x\n4:blkio,memory:/outside/name\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ];
        assert_eq!(available_in(&first), Some(1_024_000));
        let full = [
            MEMORY,
            ("proc/self/cgroup", "4:memory:/outside/name\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n"),
        ];
        assert_eq!(available_in(&full), Some(0));
    }

    #[test]
    fn a_refusal_names_both_numbers() {
        let both = Copies { read: true, packed: true };
        assert!(compare(3 << 30, both, 6 << 30).is_ok());
        let refused = compare(3 << 30, both, 5 << 30).unwrap_err();
        let wanted = "the model needs 6.0 GiB of memory for its files and a copy of the weights in the backend's layout, but 5.0 GiB \
                      are available; --mmap needs less, if the command has it";
        assert_eq!(refused, wanted);
        let mapped = Copies { read: false, packed: true };
        assert!(compare(3 << 30, mapped, 3 << 30).is_ok());
        assert!(compare(4 << 30, mapped, 3 << 30).unwrap_err().contains("4.0 GiB"));
        assert!(compare(u64::MAX, Copies { read: false, packed: false }, 0).is_ok());
    }

    #[test]
    fn a_device_that_is_too_small_is_named_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        // Holes, which take no space.
        files.iter().for_each(|file| fs::File::create(file).unwrap().set_len(3 << 30).unwrap());
        let refused = check_device(&files, Some(5 << 30)).unwrap_err();
        assert!(
            refused.starts_with("the weights need 6.0 GiB of memory on the device, but it has 5.0 GiB"),
            "{refused}"
        );
        assert_eq!((check_device(&files, Some(6 << 30)), check_device(&files, None)), (Ok(()), Ok(())));
    }

    #[test]
    fn this_machine_has_memory() {
        if cfg!(target_os = "linux") {
            assert!(available(Path::new("/")).unwrap() > 1 << 20);
        }
    }
}
