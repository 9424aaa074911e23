//! Finds the kernels of rocBLAS and hipBLASLt, which are Tensile's files next to each library. Since ROCm 7.14, code that was
//! in the library itself may be in files `.kpack/*.kpack` of one target each.
//!
//! A library without kernels for the device may end the process when it is used. So check first.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a library has its kernels.
#[derive(Clone, Copy, Debug)]
pub struct Tensile {
    /// The library's name in messages.
    pub library: &'static str,
    /// The folder beside the library that holds `library/TensileLibrary*`.
    pub folder: &'static str,
    /// The environment variable that names another folder.
    pub variable: &'static str,
}

/// A library has no kernels for an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKernels {
    /// The library.
    pub library: &'static str,
    /// The environment variable that names another folder.
    pub variable: &'static str,
    /// The architecture, without features.
    pub gfx: String,
    /// The files that were searched for, in these folders.
    pub files: &'static str,
    /// The folders that were searched.
    pub folders: Vec<PathBuf>,
}

impl fmt::Display for NoKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoKernels { library, gfx, files, .. } = self;
        write!(f, "{library} has no kernels for {gfx}: there is no {files}{gfx} in ")?;
        let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
        f.write_str(&if folders.is_empty() {
            "any folder beside it".to_string()
        } else {
            folders.join(", ")
        })?;
        match self.files {
            PACKS => write!(f, "; install ROCm's package of this target (rocm[device-{gfx}])"),
            _ => write!(f, "; set {} to a folder that has them", self.variable),
        }
    }
}

impl std::error::Error for NoKernels {}

const FILES: &str = "TensileLibrary*";
const PACKS: &str = "*.kpack of ";

impl Tensile {
    /// The folder with the kernels for an architecture without features, such as `gfx90a`, of a library in these folders.
    ///
    /// # Errors
    ///
    /// [`NoKernels`] if there is none.
    pub fn kernels_for(&self, library_folders: &[PathBuf], gfx: &str) -> Result<PathBuf, NoKernels> {
        let folder = self.find(library_folders, std::env::var_os(self.variable).as_deref(), gfx)?;
        match without_pack(library_folders, gfx) {
            None => Ok(folder),
            Some(packs) => Err(self.no_kernels(gfx, PACKS, vec![packs])),
        }
    }

    fn no_kernels(&self, gfx: &str, files: &'static str, folders: Vec<PathBuf>) -> NoKernels {
        let Tensile { library, variable, .. } = *self;
        NoKernels { library, variable, gfx: gfx.to_string(), files, folders }
    }

    fn find(
        &self,
        library_folders: &[PathBuf],
        chosen: Option<&OsStr>,
        gfx: &str,
    ) -> Result<PathBuf, NoKernels> {
        let roots = match chosen.filter(|path| !path.is_empty()) {
            Some(path) => vec![PathBuf::from(path)],
            None => library_folders.iter().flat_map(|folder| self.candidate_folders(folder)).collect(),
        };
        let folders: Vec<PathBuf> = roots
            .into_iter()
            .flat_map(|root| [root.join(gfx), root])
            .filter(|folder| folder.is_dir())
            .collect();
        match folders.iter().find(|folder| has_kernels(folder, gfx)) {
            Some(folder) => Ok(folder.clone()),
            None => Err(self.no_kernels(gfx, FILES, folders)),
        }
    }

    /// The folders that the library searches, relative to its own: AMD's packages use `rocblas/library`, Debian's may add a
    /// version.
    fn candidate_folders(&self, folder: &Path) -> Vec<PathBuf> {
        let own = folder.join(self.folder);
        let versions = fs::read_dir(&own).into_iter().flatten().flatten();
        let mut folders =
            vec![folder.join("../../Tensile/library"), folder.join("library"), own.join("library")];
        folders.extend(versions.map(|version| version.path().join("library")));
        folders
    }
}

fn has_kernels(folder: &Path, gfx: &str) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.file_name()).any(|name| is_for(&name.to_string_lossy(), gfx))
}

/// The folder of packs of these libraries, if it has some of other architectures but none of this one.
fn without_pack(library_folders: &[PathBuf], gfx: &str) -> Option<PathBuf> {
    let packs =
        library_folders.iter().flat_map(|folder| [".kpack", "../.kpack"].map(|name| folder.join(name)));
    packs.into_iter().find(|folder| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut packs = names.filter(|name| name.ends_with(".kpack") && name.contains("gfx")).peekable();
        packs.peek().is_some() && !packs.any(|name| names_architecture(&name, gfx))
    })
}

/// Whether a file's name is that of a Tensile library for exactly this architecture.
fn is_for(name: &str, gfx: &str) -> bool {
    name.starts_with("TensileLibrary") && names_architecture(name, gfx)
}

/// Whether a name contains an architecture as a whole word.
fn names_architecture(name: &str, gfx: &str) -> bool {
    let ends = |at: usize| !name[at + gfx.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
    name.match_indices(gfx).any(|(at, _)| ends(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROCBLAS: Tensile =
        Tensile { library: "rocBLAS", folder: "rocblas", variable: "ROCBLAS_TENSILE_LIBPATH" };

    #[test]
    fn a_file_is_for_an_architecture_by_its_whole_name() {
        assert!(is_for("TensileLibrary_lazy_gfx90a.dat", "gfx90a"));
        assert!(is_for("TensileLibrary_Type_ZZ_fallback_gfx90a-xnack+.hsaco", "gfx90a"));
        assert!(!is_for("TensileLibrary_lazy_gfx906.dat", "gfx90"));
        assert!(!is_for("TensileLibrary_lazy_gfx1100.dat", "gfx110"));
        assert!(!is_for("Kernels.so-000-gfx90a.hsaco", "gfx90a"));
    }

    #[test]
    fn a_pack_of_the_architecture_must_be_there_if_there_are_packs() {
        let root = std::env::temp_dir().join(format!("rocblas-packs-{}", std::process::id()));
        let (lib, packs) = (root.join("lib"), root.join(".kpack"));
        fs::create_dir_all(lib.join("rocblas/library")).unwrap();
        fs::write(lib.join("rocblas/library/TensileLibrary_lazy_gfx1100.dat"), "").unwrap();
        let folders = [lib];
        assert!(ROCBLAS.kernels_for(&folders, "gfx1100").is_ok(), "no packs");
        fs::create_dir_all(&packs).unwrap();
        fs::write(packs.join("blas_lib_gfx1201.kpack"), "").unwrap();
        let error = ROCBLAS.kernels_for(&folders, "gfx1100").unwrap_err().to_string();
        assert!(error.contains("*.kpack of gfx1100") && error.contains("rocm[device-gfx1100]"), "{error}");
        fs::write(packs.join("blas_lib_gfx1100.kpack"), "").unwrap();
        assert!(ROCBLAS.kernels_for(&folders, "gfx1100").is_ok());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn kernels_are_found_next_to_the_library_or_in_the_variables_folder() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let (amd, debian) = (root.join("amd/rocblas/library"), root.join("debian/rocblas/5/library"));
        let chosen = root.join("chosen");
        for (folder, gfx) in [(&amd, "gfx1100"), (&debian, "gfx90a"), (&chosen, "gfx906")] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(format!("TensileLibrary_lazy_{gfx}.dat")), "").unwrap();
        }
        let library_folders = [root.join("amd"), root.join("debian")];
        assert_eq!(ROCBLAS.find(&library_folders, None, "gfx1100"), Ok(amd.clone()));
        assert_eq!(ROCBLAS.find(&library_folders, Some(OsStr::new("")), "gfx90a"), Ok(debian.clone()));
        assert_eq!(ROCBLAS.find(&library_folders, Some(chosen.as_os_str()), "gfx906"), Ok(chosen.clone()));
        let error = ROCBLAS.find(&library_folders, Some(chosen.as_os_str()), "gfx1100").unwrap_err();
        assert_eq!(error.folders, [chosen]);
        let error = ROCBLAS.find(&library_folders, None, "gfx1152").unwrap_err().to_string();
        assert!(
            error.contains("rocBLAS has no kernels for gfx1152") && error.contains(&*amd.to_string_lossy()),
            "{error}"
        );
    }
}
