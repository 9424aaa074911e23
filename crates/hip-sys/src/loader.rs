//! Opens libraries and resolves their functions. `rocblas-sys`, `hipblaslt-sys`, `miopen-sys` and `rccl-sys` also build on this module.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Failure, is_bare};
use crate::file_names;
use crate::process_libraries;
use crate::search::{Folder, Search};
use crate::{Attempt, LoadError, LoadErrorKind, Outcome};

#[doc(hidden)]
pub use crate::symbol::address;
pub use crate::version::Version;
#[doc(hidden)]
pub use libloading;

/// A table of a library's functions, defined by [`functions!`](crate::functions).
pub trait Functions: Sized {
    /// The names of all functions in the table.
    const SYMBOLS: &'static [&'static str];

    /// Resolves every function. A missing function is an error when it is called, not here.
    ///
    /// # Safety
    ///
    /// The library must be the one whose header declares these functions, and must stay open while the table is used.
    unsafe fn resolve(library: &libloading::Library, path: Arc<Path>) -> Self;

    /// The functions that the library lacks.
    fn missing(&self) -> Vec<&'static str>;
}

/// An open library with its functions, which are called through `Deref`: `hip.hipGetDeviceCount(..)`.
///
/// Clones are cheap and refer to the same library, which stays open until the process ends.
#[derive(Debug)]
pub struct Library<F> {
    inner: Arc<Inner<F>>,
}

#[derive(Debug)]
struct Inner<F> {
    functions: F,
    path: Arc<Path>,
    soname: String,
    major: u32,
    version: Option<Version>,
    note: Option<String>,
    /// Never closed: ROCm's libraries start threads and register exit handlers, and do not survive unloading.
    _library: ManuallyDrop<libloading::Library>,
}

impl<F> Library<F> {
    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The soname by which it was found, such as `libamdhip64.so.7`.
    pub fn soname(&self) -> &str {
        &self.inner.soname
    }

    /// The major version of ROCm that it belongs to.
    pub fn rocm_major(&self) -> u32 {
        self.inner.major
    }

    /// The version that the library reports, or else that of its file's name, such as `libhipblaslt.so.1.2.70200`.
    pub fn version(&self) -> Option<Version> {
        self.inner.version
    }

    /// What the user should know of how it was found: `OPS_ROCM_PATH` has another copy than the one that the process had loaded.
    pub fn note(&self) -> Option<&str> {
        self.inner.note.as_deref()
    }

    /// Other files of this library that the process has loaded. Two copies keep separate state, so one does not know the
    /// handles and streams of the other.
    pub fn copies(&self) -> Vec<PathBuf> {
        let stem = self.soname().split(".so").next().unwrap_or_default();
        let others = process_libraries::files_of(stem).into_iter();
        others.filter(|file| !process_libraries::same_file(file, self.path())).collect()
    }

    /// The folder of the library and, if it is a link to another folder, the folder of its target.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        for file in
            [Some(self.path().to_path_buf()), std::fs::canonicalize(self.path()).ok()].into_iter().flatten()
        {
            if let Some(folder) = file.parent()
                && !folders.iter().any(|f| f == folder)
            {
                folders.push(folder.to_path_buf());
            }
        }
        folders
    }
}

impl<F> Clone for Library<F> {
    fn clone(&self) -> Self {
        Library { inner: self.inner.clone() }
    }
}

impl<F> Deref for Library<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.inner.functions
    }
}

/// How to find a library and read its version.
#[derive(Clone, Debug)]
pub struct Description<F> {
    /// Its name in messages, such as "the HIP runtime".
    pub name: &'static str,
    /// Its sonames, preferred first, each with the major version of ROCm that it belongs to.
    pub sonames: Vec<(String, u32)>,
    /// A newer soname, with the major version of ROCm that it belongs to, which is tried after all others. A file with this name
    /// must have all functions.
    pub newer: Option<(String, u32)>,
    /// A function without which a file is not this library, even though it has one of the sonames.
    pub required: Option<&'static str>,
    /// The remedy if it cannot be opened.
    pub advice: String,
    /// Reads the version from the open library.
    pub version: fn(&F) -> Option<Version>,
}

impl<F: Functions> Description<F> {
    /// Opens the first of these libraries that the search finds. One that the process has already loaded
    /// takes precedence over any search.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if the library is not found, the system's loader rejects it, or the process would then have two copies
    /// of the HIP runtime.
    pub fn open(&self, search: &Search) -> Result<Library<F>, LoadError> {
        let mut attempts = Vec::new();
        let kind = match self.first(search, &mut attempts) {
            Ok(Some(library)) => return Ok(library),
            Ok(None) if attempts.iter().all(|a| a.outcome == Outcome::Absent) => LoadErrorKind::NotFound,
            Ok(None) => LoadErrorKind::Unusable,
            Err(kind) => kind,
        };
        let advice = match &kind {
            LoadErrorKind::TwoMajors { loaded, .. } | LoadErrorKind::TwoCopies { loaded, .. } => {
                format!("set OPS_ROCM_PATH to {}", loaded.parent().unwrap_or(loaded).display())
            }
            LoadErrorKind::Platform => "ROCm is supported on Linux, also in the Windows Subsystem for Linux; on Windows itself, this \
                                        crate would have to open AMD's DLLs (amdhip64_7.dll, hiprtc*.dll)"
                .to_string(),
            LoadErrorKind::NotFound | LoadErrorKind::Unusable => self.advice.clone(),
        };
        let sonames = self.sonames.iter().map(|(soname, _)| soname.clone()).collect();
        let mut notes = search.notes.clone();
        if kind == LoadErrorKind::NotFound {
            let soname = self.sonames.first().map_or("", |(soname, _)| soname);
            let other = file_names::other_versions(soname, search.folders.iter().map(|folder| &*folder.path));
            notes.extend(other.iter().map(|file| format!("{} is of an unsupported version", file.display())));
        }
        Err(LoadError(Box::new(Failure { library: self.name, sonames, kind, notes, attempts, advice })))
    }

    /// The first library that opens; `None` if there is none. An error ends the search early.
    fn first(&self, search: &Search, tried: &mut Vec<Attempt>) -> Result<Option<Library<F>>, LoadErrorKind> {
        if !cfg!(target_os = "linux") {
            return Err(LoadErrorKind::Platform);
        }
        // Sonames of the HIP runtime, which may contain the library, as for hipRTC.
        let (substitutes, own): (Vec<_>, Vec<_>) = self
            .sonames
            .iter()
            .partition(|(soname, _)| process_libraries::is_hip_runtime(soname) && !self.is_runtime());
        let known: Vec<_> = own.into_iter().chain(&self.newer).collect();
        if let Some(library) = self.resident(&known, search)? {
            return Ok(Some(library));
        }
        if let Some(library) = self.found(&self.sonames, &[], search, tried)? {
            return Ok(Some(library));
        }
        if let Some(library) = self.found(self.newer.as_slice(), F::SYMBOLS, search, tried)? {
            return Ok(Some(library));
        }
        self.resident(&substitutes, search)
    }

    /// The first of these libraries in the places of the search that has all `required` functions.
    fn found(
        &self,
        sonames: &[(String, u32)],
        required: &[&'static str],
        search: &Search,
        tried: &mut Vec<Attempt>,
    ) -> Result<Option<Library<F>>, LoadErrorKind> {
        for place in search.places() {
            for (soname, major) in sonames {
                let file = place.map_or_else(|| PathBuf::from(soname), |folder| folder.path.join(soname));
                let outcome = match self.attempt(place, file.clone(), (soname, *major), required)? {
                    Ok(library) => return Ok(Some(library)),
                    Err(outcome) => outcome,
                };
                let broken = matches!(outcome, Outcome::Refused(_));
                let broken_choice = broken && place.is_some_and(|folder| folder.chosen);
                tried.push(Attempt { path: file, outcome });
                if broken_choice {
                    return Err(LoadErrorKind::Unusable);
                }
            }
        }
        Ok(None)
    }

    fn is_runtime(&self) -> bool {
        self.sonames.first().is_some_and(|(soname, _)| process_libraries::is_hip_runtime(soname))
    }

    /// The first of these libraries that the process has already loaded. A second copy, or another major
    /// version, would not work with it.
    fn resident(
        &self,
        sonames: &[&(String, u32)],
        search: &Search,
    ) -> Result<Option<Library<F>>, LoadErrorKind> {
        for (soname, major) in sonames {
            let Some(library) = process_libraries::loaded(soname) else { continue };
            if self.required.is_some_and(|name| address(&library, name).is_null()) {
                continue;
            }
            one_major()?;
            let mut library = self.describe(library, PathBuf::from(soname), soname, *major);
            let note = self.other_choice(&library, search);
            if let Some(inner) = Arc::get_mut(&mut library.inner) {
                inner.note = note;
            }
            return Ok(Some(library));
        }
        Ok(None)
    }

    /// The copy that the user chose although the process has loaded this one.
    fn other_choice(&self, loaded: &Library<F>, search: &Search) -> Option<String> {
        let mut chosen = search.user_choice().flat_map(|folder| {
            self.sonames.iter().map(|(soname, _)| folder.join(soname)).filter(|file| file.exists())
        });
        let other = chosen.next().filter(|file| !process_libraries::same_file(file, loaded.path()))?;
        Some(format!(
            "OPS_ROCM_PATH names {}, but this process had loaded {} before, which is used",
            other.display(),
            loaded.path().display()
        ))
    }

    /// Opens a file in a folder, or, without a folder, the soname through the system's loader.
    fn attempt(
        &self,
        place: Option<&Folder>,
        file: PathBuf,
        (soname, major): (&str, u32),
        all_of: &[&'static str],
    ) -> Result<Result<Library<F>, Outcome>, LoadErrorKind> {
        let mut file = file;
        let resident = process_libraries::hip_runtimes();
        if place.is_some() {
            if !file.exists() {
                return Ok(Err(Outcome::Absent));
            }
            if let Some(other) =
                file.parent().and_then(|folder| process_libraries::other_runtime(folder, major))
            {
                return Ok(Err(Outcome::Refused(format!("it belongs to {}", other.display()))));
            }
            if let Some(other) = resident.iter().find(|runtime| runtime.major != major) {
                return Err(LoadErrorKind::TwoMajors { loaded: other.path.clone(), other: file });
            }
            if let Some(same) = resident.first().filter(|_| process_libraries::is_hip_runtime(soname)) {
                file = same.path.clone();
            }
        }
        // SAFETY: the file has one of ROCm's names in a place for ROCm's libraries, so its initialisers are ROCm's.
        let library = match unsafe { libloading::Library::new(&file) } {
            Ok(library) => library,
            Err(error) => return Ok(Err(outcome(&file, place.is_none(), &error))),
        };
        let mut required = self.required.iter().chain(all_of);
        if let Some(required) = required.find(|name| address(&library, name).is_null()) {
            return Ok(Err(Outcome::Lacks(required)));
        }
        // The library may have loaded a runtime of its own. Returning drops it, which closes it again.
        one_major()?;
        no_further_copy(&resident)?;
        Ok(Ok(self.describe(library, file, soname, major)))
    }

    /// Resolves the functions and reads the version.
    fn describe(&self, library: libloading::Library, file: PathBuf, soname: &str, major: u32) -> Library<F> {
        let path: Arc<Path> = match place_of::<F>(&library).filter(|_| is_bare(&file)) {
            Some(found) => found.into(),
            None => file.into(),
        };
        // SAFETY: by its name this is the library that the table describes, and it is never closed.
        let functions = unsafe { F::resolve(&library, path.clone()) };
        let version = (self.version)(&functions).or_else(|| file_names::version(&path));
        let _library = ManuallyDrop::new(library);
        Library {
            inner: Arc::new(Inner {
                functions,
                path,
                soname: soname.to_string(),
                major,
                version,
                note: None,
                _library,
            }),
        }
    }
}

/// Checks that all HIP runtimes of the process have one major version.
fn one_major() -> Result<(), LoadErrorKind> {
    if let [first, others @ ..] = process_libraries::hip_runtimes().as_slice()
        && let Some(other) = others.iter().find(|runtime| runtime.major != first.major)
    {
        return Err(LoadErrorKind::TwoMajors { loaded: first.path.clone(), other: other.path.clone() });
    }
    Ok(())
}

/// Checks that a library just opened has loaded no second copy of the HIP runtime beside those that were there before.
fn no_further_copy(before: &[process_libraries::Runtime]) -> Result<(), LoadErrorKind> {
    let Some(first) = before.first() else { return Ok(()) };
    let known = |path: &Path| before.iter().any(|runtime| process_libraries::same_file(&runtime.path, path));
    match process_libraries::hip_runtimes().into_iter().find(|runtime| !known(&runtime.path)) {
        Some(other) => Err(LoadErrorKind::TwoCopies { loaded: first.path.clone(), other: other.path }),
        None => Ok(()),
    }
}

/// Returns the library that was opened first. A failure is not cached, so the next call tries again.
///
/// # Errors
///
/// The errors of `open`.
pub fn once<F>(
    cell: &OnceLock<Library<F>>,
    open: impl FnOnce() -> Result<Library<F>, LoadError>,
) -> Result<Library<F>, LoadError> {
    match cell.get() {
        Some(library) => Ok(library.clone()),
        None => open().map(|library| cell.get_or_init(|| library).clone()),
    }
}

/// The file that the system's loader found, identified by the mapping that holds the library's first function.
fn place_of<F: Functions>(library: &libloading::Library) -> Option<PathBuf> {
    F::SYMBOLS.iter().find_map(|name| process_libraries::file_at(address(library, name)))
}

/// The loader's reason, or `Absent` if no file has the given name.
fn outcome(file: &Path, bare: bool, error: &libloading::Error) -> Outcome {
    let reason = match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    };
    let absent = format!("{}: cannot open shared object file: No such file", file.display());
    if bare && reason.starts_with(&absent) { Outcome::Absent } else { Outcome::Refused(reason) }
}

/// Defines the type `Functions`, a table of C functions that is filled when a library is opened, from their declarations. A
/// method with the same name and arguments calls the function, or returns an error if the library lacks it.
#[macro_export]
macro_rules! functions {
    ($(pub fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions of the library, resolved when it was opened.
        #[derive(Debug)]
        pub struct Functions {
            library: ::std::sync::Arc<::std::path::Path>,
            $($name: Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,)*
        }

        impl $crate::Functions for Functions {
            const SYMBOLS: &'static [&'static str] = &[$(stringify!($name)),*];

            unsafe fn resolve(
                library: &$crate::loader::libloading::Library,
                path: ::std::sync::Arc<::std::path::Path>,
            ) -> Self {
                Functions {
                    library: path,
                    // SAFETY: a null pointer is the `None` of a function pointer, and the caller guarantees
                    // that the declaration matches the library's header.
                    $($name: unsafe {
                        ::std::mem::transmute::<
                            *const ::std::ffi::c_void,
                            Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,
                        >($crate::loader::address(library, stringify!($name)))
                    },)*
                }
            }

            fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$name.is_none() { missing.push(stringify!($name)); })*
                missing
            }
        }

        impl Functions {
            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Errors
                ///
                /// [`MissingSymbol`]($crate::MissingSymbol) if the library does not export the function.
                ///
                /// # Safety
                ///
                /// The requirements of the C function: valid pointers, live handles, sizes that match.
                #[inline]
                pub unsafe fn $name(
                    &self, $($arg: $type),*
                ) -> Result<$crate::functions!(@result $($result)?), $crate::MissingSymbol> {
                    match self.$name {
                        // SAFETY: the caller upholds the contract.
                        Some(function) => Ok(unsafe { function($($arg),*) }),
                        None => Err($crate::MissingSymbol {
                            symbol: stringify!($name),
                            library: self.library.clone(),
                        }),
                    }
                }
            )*
        }
    };
    (@result) => { () };
    (@result $result:ty) => { $result };
}
