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
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |meta| meta.len());
    compare(files.iter().map(size).fold(0, u64::saturating_add), copies, available)
}

fn compare(size: u64, copies: Copies, available: u64) -> Result<(), String> {
    let copy = |held| if held { size } else { 0 };
    let needed = copy(copies.read).saturating_add(copy(copies.packed));
    if needed <= available {
        return Ok(());
    }
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
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
    fn system(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("ops-command-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }
    fn available_in(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = system(name, files);
        let found = available(&root);
        let _ = fs::remove_dir_all(root);
        found
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n");

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(available_in("none", &[]), None);
        assert_eq!(available_in("system", &[MEMORY]), Some(1_024_000));
        let second = [
            MEMORY,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/memory.current", "300000\n"),
            ("sys/fs/cgroup/a/memory.stat", "file 7\ninactive_file 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "300000\n"),
        ];
        assert_eq!(available_in("second", &second), Some(300_000));
        let first = [
            MEMORY,
            ("proc/self/cgroup", "5:cpu:/x\n4:blkio,memory:/outside/name\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ];
        assert_eq!(available_in("first", &first), Some(1_024_000));
        let full = [
            MEMORY,
            ("proc/self/cgroup", "4:memory:/outside/name\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n"),
        ];
        assert_eq!(available_in("full", &full), Some(0));
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
    fn this_machine_has_memory() {
        if cfg!(target_os = "linux") {
            assert!(available(Path::new("/")).unwrap() > 1 << 20);
        }
    }
}
