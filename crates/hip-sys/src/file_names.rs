//! What the names of libraries' files say about their versions.
use crate::Version;
use std::path::{Path, PathBuf};

/// The version in the name of a library's file: 1.2.70200 for `libhipblaslt.so.1`, a link to `libhipblaslt.so.1.2.70200`.
pub(crate) fn version(library: &Path) -> Option<Version> {
    let file = library.canonicalize().ok()?;
    let (_, numbers) = file.file_name()?.to_str()?.split_once(".so.")?;
    let numbers: Vec<u32> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [major, minor] => Some(Version::new(major, minor, 0)),
        [major, minor, patch] => Some(Version::new(major, minor, patch)),
        _ => None,
    }
}

/// Files in these folders with a soname like this one but for its number: `libamdhip64.so.5` for `libamdhip64.so.7`.
pub(crate) fn other_versions<'f>(soname: &str, folders: impl Iterator<Item = &'f Path>) -> Vec<PathBuf> {
    let library = |name: &str| {
        let (library, number) = name.rsplit_once('.')?;
        number.parse::<u32>().ok().map(|_| library.to_owned())
    };
    let wanted = library(soname);
    let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let is_other = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| wanted.is_some() && library(name) == wanted)
    };
    files.filter(is_other).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            file
        };
        let real = file("libhipblaslt.so.1.2.70200");
        let link = folder.path().join("libhipblaslt.so.1");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(version(&link), Some(Version::new(1, 2, 70200)));
        assert_eq!(version(&file("librocblas.so.5.1")), Some(Version::new(5, 1, 0)));
        for name in ["libMIOpen.so.1", "libMIOpen.so", "libMIOpen.so.1.0.1.2", "libMIOpen.so.1.x"] {
            assert_eq!(version(&file(name)), None, "{name}");
        }
        let old = file("libamdhip64.so.5");
        let folders = || [folder.path(), Path::new("/no/such/folder")].into_iter();
        assert_eq!(other_versions("libamdhip64.so.7", folders()), [old]);
        assert!(other_versions("", folders()).is_empty());
    }
}
