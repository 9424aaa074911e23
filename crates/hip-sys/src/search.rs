//! The places that are searched for ROCm's libraries.

mod installation;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use installation::rocm_version;

/// The variable whose folders the user chose for this crate.
const CHOSEN: &str = "OPS_ROCM_PATH";

/// The variables that name folders of ROCm, in the order in which they are searched.
const VARIABLES: [&str; 4] = [CHOSEN, "ROCM_PATH", "ROCM_HOME", "HIP_PATH"];

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

    /// The folders in `OPS_ROCM_PATH`, `ROCM_PATH`, `ROCM_HOME` and `HIP_PATH` (lists, as in `PATH`), ROCm's Python packages and
    /// libraries in the environments `VIRTUAL_ENV` and `CONDA_PREFIX`, installations in `/opt` with the newest first, then the
    /// system's loader.
    pub fn standard() -> Search {
        Search::from_parts(&|name| std::env::var_os(name), Path::new("/opt"))
    }

    /// Adds a folder of libraries, an installation's root, a `site-packages` folder with ROCm's packages, or an environment.
    pub fn folder(mut self, path: impl Into<PathBuf>) -> Search {
        self.add(path.into(), false);
        self
    }

    /// Adds the system's loader, which is tried after all folders.
    pub fn system(mut self) -> Search {
        self.system = true;
        self
    }

    fn from_parts(variable: &dyn Fn(&str) -> Option<OsString>, opt: &Path) -> Search {
        let mut search = Search::new().system();
        let value = |name| variable(name).filter(|value| !value.is_empty());
        for name in VARIABLES {
            let Some(list) = value(name) else {
                search.notes.push(format!("{name} is not set"));
                continue;
            };
            for path in std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()) {
                if !path.is_dir() {
                    search.notes.push(format!("{name} is {}, which is not a folder", path.display()));
                }
                search.add(path, name == CHOSEN);
            }
        }
        for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(value).map(PathBuf::from) {
            search.extend(installation::environment(&environment), false);
        }
        // Libraries of conda's packages are those of the environment.
        if let Some(conda) =
            value("CONDA_PREFIX").map(|conda| PathBuf::from(conda).join("lib")).filter(|lib| lib.is_dir())
        {
            search.extend([conda], false);
        }
        let installed = installation::installed(opt);
        if installed.is_empty() {
            search.notes.push(format!("there is no {}", opt.join("rocm*").display()));
        }
        for root in installed {
            search.extend(installation::own_folders(&root), false);
        }
        search
    }

    fn add(&mut self, root: PathBuf, chosen: bool) {
        self.extend(installation::library_folders(&root), chosen);
    }

    fn extend(&mut self, folders: impl IntoIterator<Item = PathBuf>, chosen: bool) {
        for path in folders {
            if !self.folders.iter().any(|f| f.path == path) {
                self.folders.push(Folder { path, chosen });
            }
        }
    }

    /// The folders in order, followed by `None` if the system's loader is to be asked.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&Folder>> {
        self.folders.iter().map(Some).chain(self.system.then_some(None))
    }

    /// The folders in `OPS_ROCM_PATH`.
    pub(crate) fn user_choice(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().filter(|folder| folder.chosen).map(|folder| &*folder.path)
    }

    /// The places for a library whose soname does not tell the major version of its HIP runtime: the runtime's folders and those
    /// beside them first, then the others. The system's loader is asked only if it found the runtime, too, since it might
    /// load another one.
    pub fn of_runtime(&self, folders: Vec<PathBuf>) -> Search {
        let in_a_folder = self.folders.iter().any(|folder| folders.contains(&folder.path));
        Search { system: self.system && !in_a_folder, ..self.after(folders) }
    }

    /// Puts these folders before all others. After folders of ROCm's Python packages come those of the packages beside them.
    pub fn after(&self, folders: impl IntoIterator<Item = PathBuf>) -> Search {
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        let siblings: Vec<PathBuf> =
            folders.iter().flat_map(|folder| installation::siblings(folder)).collect();
        let mut search = Search { folders: Vec::new(), system: self.system, notes: self.notes.clone() };
        search.extend(folders.into_iter().chain(siblings), true);
        for folder in &self.folders {
            search.extend([folder.path.clone()], folder.chosen);
        }
        search
    }
}

#[cfg(test)]
mod tests;
