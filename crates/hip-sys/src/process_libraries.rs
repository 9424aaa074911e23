//! Libraries that the process has already loaded, for example a HIP runtime loaded by other code.

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use crate::symbol::address;

/// A HIP runtime that the process has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runtime {
    pub(crate) path: PathBuf,
    pub(crate) major: u32,
}

/// The library that the process has loaded under a soname, from whatever file.
#[cfg(target_os = "linux")]
pub(crate) fn loaded(soname: &str) -> Option<libloading::Library> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    /// The value in all C libraries of Linux on every platform that ROCm supports.
    const RTLD_NOLOAD: std::ffi::c_int = 4;
    // SAFETY: nothing is loaded, so no initialiser runs. A loaded library gets one more owner.
    unsafe { Library::open(Some(soname), RTLD_LAZY | RTLD_NOLOAD) }.ok().map(Into::into)
}

/// On other platforms there is no ROCm.
#[cfg(not(target_os = "linux"))]
pub(crate) fn loaded(_soname: &str) -> Option<libloading::Library> {
    None
}

/// The file of the library that the process has loaded under a soname, identified by one of its functions.
pub(crate) fn loaded_file(soname: &str, function: &str) -> Option<PathBuf> {
    file_at(address(&loaded(soname)?, function))
}

/// The HIP runtimes that the process has loaded, each file once. Empty if `/proc` cannot be read.
pub(crate) fn hip_runtimes() -> Vec<Runtime> {
    // By soname first: the files in some Python packages have no version in their names.
    let by_soname = HIP_MAJORS.filter_map(|major| {
        let path = loaded_file(&format!("{HIP_RUNTIME}{major}"), "hipRuntimeGetVersion")?;
        Some(Runtime { path, major })
    });
    let mut runtimes: Vec<Runtime> = by_soname.collect();
    for mapping in mappings().iter().filter_map(|line| Mapping::parse(line)) {
        if let Some(major) = hip_major(&mapping.path)
            && !runtimes.iter().any(|r| same_file(&r.path, &mapping.path))
        {
            runtimes.push(Runtime { path: mapping.path, major });
        }
    }
    runtimes
}

/// The files that the process has loaded whose names start with a library's, such as `libamdhip64`, each once.
pub(crate) fn files_of(stem: &str) -> Vec<PathBuf> {
    let is_of = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so"))
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for mapping in
        mappings().iter().filter_map(|line| Mapping::parse(line)).filter(|mapping| is_of(&mapping.path))
    {
        if !files.iter().any(|file| same_file(file, &mapping.path)) {
            files.push(mapping.path);
        }
    }
    files
}

/// Whether two paths lead to one file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    a == b
}

/// The file that is mapped at an address.
pub(crate) fn file_at(address: *const c_void) -> Option<PathBuf> {
    let address = address as usize;
    let of = |line: &String| Mapping::parse(line).filter(|m| m.start <= address && address < m.end);
    mappings().iter().find_map(of).map(|m| m.path)
}

fn mappings() -> Vec<String> {
    let text = std::fs::read("/proc/self/maps").unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_string).collect()
}

/// The HIP runtime in a folder if it has only those of other major versions.
pub(crate) fn other_runtime(folder: &Path, major: u32) -> Option<PathBuf> {
    let runtime = |major| Some(folder.join(format!("{HIP_RUNTIME}{major}"))).filter(|file| file.exists());
    HIP_MAJORS.filter(|other| *other != major).find_map(runtime).filter(|_| runtime(major).is_none())
}

/// Whether a soname is that of the HIP runtime.
pub(crate) fn is_hip_runtime(soname: &str) -> bool {
    soname.starts_with(HIP_RUNTIME)
}

const HIP_RUNTIME: &str = "libamdhip64.so.";

/// Major versions that a process may hold, besides the two that are supported.
const HIP_MAJORS: std::ops::RangeInclusive<u32> = 4..=9;

/// The major version in the file name of a HIP runtime; `None` for any other file.
fn hip_major(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix(HIP_RUNTIME)?.split('.').next()?.parse().ok()
}

struct Mapping {
    start: usize,
    end: usize,
    path: PathBuf,
}

impl Mapping {
    /// A line of `/proc/self/maps`: `start-end perms offset device inode   path`.
    fn parse(line: &str) -> Option<Mapping> {
        let path = &line[line.find('/')?..];
        let path = PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path));
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let address = |hex| usize::from_str_radix(hex, 16).ok();
        Some(Mapping { start: address(start)?, end: address(end)?, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_gives_its_range_and_path() {
        let line = "7f10-7f30 r-xp 00000000 fe:00 42     /opt/my rocm/lib/libamdhip64.so.7.2.4 (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f10, 0x7f30));
        assert_eq!(mapping.path, Path::new("/opt/my rocm/lib/libamdhip64.so.7.2.4"));
        assert!(Mapping::parse("7f10-7f30 rw-p 00000000 00:00 0     [heap]").is_none());
    }

    #[test]
    fn only_a_versioned_hip_runtime_has_a_major() {
        assert_eq!(hip_major(Path::new("/a/libamdhip64.so.6.4.43484")), Some(6));
        assert_eq!(hip_major(Path::new("/a/libamdhip64.so")), None);
        assert_eq!(hip_major(Path::new("/a/libhiprtc.so.6")), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_address_of_this_program_is_in_this_program() {
        let here = an_address_of_this_program_is_in_this_program as *const c_void;
        let program = std::env::current_exe().unwrap();
        assert_eq!(file_at(here).and_then(|p| std::fs::canonicalize(p).ok()), Some(program));
    }
}
