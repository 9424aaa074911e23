//! The places that are searched for ROCm's libraries.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The places that are searched for libraries, in order. The `load` functions use [`Search::standard`]. A search built with
/// [`Search::new`] uses neither the environment nor the system's loader unless they are added.
///
/// ```
/// use hip_sys::{hip, LoadErrorKind, Search};
/// let error = hip::load_from(&Search::new().folder("/no/such/folder")).unwrap_err();
/// assert_eq!(*error.kind(), LoadErrorKind::NotFound);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Search {
    pub(crate) folders: Vec<Folder>,
    pub(crate) system: bool,
    /// Notes for the error if nothing is found: variables that are not set, folders that do not exist.
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Chosen by the user: if a library exists here but does not load, that is an error, and the search ends.
    pub(crate) chosen: bool,
}

impl Search {
    /// Creates a search without any places.
    pub fn new() -> Search {
        Search::default()
    }

    /// `OPS_ROCM_PATH`, `ROCM_PATH`, `/opt/rocm*` with the newest first, then the system's loader.
    pub fn standard() -> Search {
        let variable = |name| std::env::var_os(name);
        Search::from_parts(variable("OPS_ROCM_PATH"), variable("ROCM_PATH"), Path::new("/opt"))
    }

    /// Adds an installation's root or a folder of libraries.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Search {
        self.add(path.into(), false);
        self
    }

    /// Adds the system's loader, which is tried after all folders.
    pub fn system(mut self) -> Search {
        self.system = true;
        self
    }

    fn from_parts(ops_rocm: Option<OsString>, rocm: Option<OsString>, opt: &Path) -> Search {
        let mut search = Search::new().system();
        for (name, value, chosen) in [("OPS_ROCM_PATH", ops_rocm, true), ("ROCM_PATH", rocm, false)] {
            match value.filter(|v| !v.is_empty()).map(PathBuf::from) {
                None => search.notes.push(format!("{name} is not set")),
                Some(path) => {
                    if !path.is_dir() {
                        search.notes.push(format!("{name} is {}, which is not a folder", path.display()));
                    }
                    search.add(path, chosen);
                }
            }
        }
        let installed = installed(opt);
        if installed.is_empty() {
            search.notes.push(format!("there is no {}", opt.join("rocm*").display()));
        }
        for folder in installed {
            search.add(folder, false);
        }
        search
    }

    /// An installation has its libraries in `lib` or `lib64`. A folder with neither contains the libraries itself.
    fn add(&mut self, path: PathBuf, chosen: bool) {
        let below = ["lib", "lib64"].map(|name| path.join(name)).into_iter().filter(|p| p.is_dir());
        for path in below.chain([path.clone()]).collect::<Vec<_>>() {
            if !self.folders.iter().any(|f| f.path == path) {
                self.folders.push(Folder { path, chosen });
            }
        }
    }

    /// The folders in order, followed by `None` if the system's loader is to be asked.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&Folder>> {
        self.folders.iter().map(Some).chain(self.system.then_some(None))
    }

    /// Puts these folders before all others.
    pub fn after(&self, folders: impl IntoIterator<Item = PathBuf>) -> Search {
        let first = folders.into_iter().map(|path| Folder { path, chosen: true });
        let mut search = Search { folders: first.collect(), system: self.system, notes: self.notes.clone() };
        for folder in &self.folders {
            if !search.folders.iter().any(|f| f.path == folder.path) {
                search.folders.push(folder.clone());
            }
        }
        search
    }
}

/// The installations `opt/rocm*`, newest first, each listed once even if several links lead to it.
fn installed(opt: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(opt).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("rocm"))
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .filter(|path| path.is_dir())
        .map(|path| (version(&path), path))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.dedup();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The version in the folder's name (`rocm-7.1.0`), or else in its `.info/version`. Empty if there is neither, which sorts
/// last.
fn version(folder: &Path) -> Vec<u32> {
    let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let named = numbers(name.trim_start_matches("rocm").trim_start_matches('-'));
    if !named.is_empty() {
        return named;
    }
    fs::read_to_string(folder.join(".info/version")).map(|text| numbers(text.trim())).unwrap_or_default()
}

/// The leading dotted numbers: `7.1.0-38` gives 7, 1, 0.
fn numbers(text: &str) -> Vec<u32> {
    let dotted = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
    dotted.split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, removed afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("hip-sys-search-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a temporary folder can be made");
            Scratch(path)
        }

        fn folder(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).expect("a temporary folder can be made");
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn paths(search: &Search) -> Vec<PathBuf> {
        search.folders.iter().map(|f| f.path.clone()).collect()
    }

    #[test]
    fn installations_are_sorted_by_version_and_not_by_name() {
        let opt = Scratch::new("versions");
        for name in ["rocm-6.4.1", "rocm-7.2", "rocm-7.10.0", "rocm", "other"] {
            opt.folder(name);
        }
        let names: Vec<_> =
            installed(&opt.0).iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["rocm-7.10.0", "rocm-7.2", "rocm-6.4.1", "rocm"]);
    }

    #[test]
    fn an_unnamed_version_is_read_from_the_installation() {
        let opt = Scratch::new("info");
        opt.folder("rocm-6.4.1");
        let plain = opt.folder("rocm");
        opt.folder("rocm/.info");
        fs::write(plain.join(".info/version"), "7.0.2-56\n").unwrap();
        assert_eq!(installed(&opt.0)[0], fs::canonicalize(plain).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_an_installation_is_not_a_second_one() {
        let opt = Scratch::new("links");
        let real = opt.folder("rocm-7.1.0");
        std::os::unix::fs::symlink(&real, opt.0.join("rocm")).unwrap();
        assert_eq!(installed(&opt.0), [fs::canonicalize(real).unwrap()]);
    }

    #[test]
    fn variables_come_before_installations_and_lib_before_the_root() {
        let root = Scratch::new("order");
        let (ops, rocm, opt) = (root.folder("ops"), root.folder("user"), root.folder("opt"));
        let ops_lib = root.folder("ops/lib64");
        let installed_lib = fs::canonicalize(root.folder("opt/rocm-7.2/lib")).unwrap();
        let search = Search::from_parts(Some(ops.clone().into()), Some(rocm.clone().into()), &opt);
        let installed = installed_lib.parent().unwrap().to_path_buf();
        assert_eq!(paths(&search), [ops_lib, ops, rocm, installed_lib, installed]);
        assert!(search.system && search.folders[0].chosen && !search.folders[2].chosen);
    }

    #[test]
    fn unset_and_empty_variables_are_noted() {
        let root = Scratch::new("unset");
        let search = Search::from_parts(None, Some(OsString::new()), &root.0);
        assert!(search.folders.is_empty());
        assert_eq!(search.notes[..2], ["OPS_ROCM_PATH is not set", "ROCM_PATH is not set"]);
        assert!(search.notes[2].starts_with("there is no "));
    }

    #[test]
    fn a_variable_that_names_no_folder_is_noted() {
        let root = Scratch::new("typo");
        let search = Search::from_parts(Some(root.0.join("typo").into()), None, &root.0);
        assert!(search.notes[0].ends_with("typo, which is not a folder"), "{:?}", search.notes);
    }
}
