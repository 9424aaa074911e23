//! Where installations of ROCm keep their libraries, and which version they are.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Version;

/// ROCm's Python packages: folders of `site-packages` with `lib` in them. The runtime comes first.
const PACKAGE: &str = "_rocm_sdk_";
const PACKAGE_OF_THE_RUNTIME: &str = "_rocm_sdk_core";

/// Folders that may hold the libraries of `root`: an installation, `/opt/rocm` with installations of several versions in it, a
/// folder of libraries, `site-packages`, or a Python or conda environment. `root` itself is last.
pub(super) fn library_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = own_folders(root);
    let root_itself = folders.pop();
    folders.extend(cores(root).iter().flat_map(|core| own_folders(core)));
    folders.extend(packages(root));
    folders.extend(environment(root));
    folders.extend(root_itself);
    folders.extend(siblings(root));
    folders
}

/// The folders of one installation: `lib`, `lib64`, Debian's folder of the architecture, and the root itself.
pub(super) fn own_folders(root: &Path) -> Vec<PathBuf> {
    let architecture = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let below = ["lib", "lib64", &architecture].map(|name| root.join(name));
    below.into_iter().filter(|folder| folder.is_dir()).chain([root.to_path_buf()]).collect()
}

/// The folders of ROCm's Python packages in a Python or conda environment.
pub(super) fn environment(root: &Path) -> Vec<PathBuf> {
    let pythons = ["lib", "lib64"].map(|lib| sub_folders(&root.join(lib), "python"));
    pythons.iter().flatten().flat_map(|python| packages(&python.join("site-packages"))).collect()
}

/// The folders of ROCm's Python packages in `site-packages`.
fn packages(site_packages: &Path) -> Vec<PathBuf> {
    let mut packages = sub_folders(site_packages, PACKAGE);
    packages.sort_by_key(|package| {
        (package.file_name() != Some(OsStr::new(PACKAGE_OF_THE_RUNTIME)), package.clone())
    });
    packages.iter().map(|package| package.join("lib")).filter(|lib| lib.is_dir()).collect()
}

/// The folders of the other packages, if this is one of ROCm's Python packages or its `lib`.
pub(super) fn siblings(folder: &Path) -> Vec<PathBuf> {
    let is_package =
        |folder: &Path| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PACKAGE));
    let package = folder.ancestors().take(2).find(|folder| is_package(folder));
    package.and_then(Path::parent).map(packages).unwrap_or_default()
}

/// The installations `core-X.Y` in `/opt/rocm`, newest first.
fn cores(rocm: &Path) -> Vec<PathBuf> {
    newest_first(sub_folders(rocm, "core"))
}

/// The installations `opt/rocm/core*` and `opt/rocm*`, newest first, each listed once even if several links lead to it. One
/// without a version comes first: it may be the newest.
pub(super) fn installed(opt: &Path) -> Vec<PathBuf> {
    let mut roots = sub_folders(&opt.join("rocm"), "core");
    roots.extend(sub_folders(opt, "rocm"));
    newest_first(roots)
}

fn newest_first(roots: Vec<PathBuf>) -> Vec<PathBuf> {
    let roots = roots.iter().filter_map(|root| fs::canonicalize(root).ok());
    let mut dated: Vec<(Option<Version>, PathBuf)> = roots.map(|root| (version_of(&root), root)).collect();
    // Of two with one version, that with a version in its name comes first: `/opt/rocm/core-10.1` before `/opt/rocm`.
    dated.sort_by(|(a, x), (b, y)| {
        (a.is_some(), b, named_version(x).is_none(), y).cmp(&(b.is_some(), a, named_version(y).is_none(), x))
    });
    dated.dedup();
    dated.into_iter().map(|(_, root)| root).collect()
}

/// The folders in `folder` whose names start like this; links are followed.
fn sub_folders(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    let mut folders: Vec<PathBuf> = named.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The version of the ROCm that a library belongs to, if its installation says it: by a folder's name (`rocm-7.1.0`,
/// `core-10.1`), a file `.info/version`, or the metadata of a Python package. HIP's own version differs from it since ROCm 10.
pub fn rocm_version(library: &Path) -> Option<Version> {
    let file = fs::canonicalize(library).ok()?;
    file.ancestors().skip(1).take(3).find_map(|folder| version_of(folder).or_else(|| package_version(folder)))
}

/// The version of an installation: in its name, in `.info/version`, or in the name of the folder that its `lib` leads to.
fn version_of(root: &Path) -> Option<Version> {
    let written = || Version::parse(&fs::read_to_string(root.join(".info/version")).ok()?);
    let linked = || named_version(fs::canonicalize(root.join("lib")).ok()?.parent()?);
    named_version(root).or_else(written).or_else(linked)
}

/// The version in a folder's name, such as `rocm-7.1.0` or `core-10.1`.
fn named_version(folder: &Path) -> Option<Version> {
    let name = folder.file_name()?.to_str()?;
    Version::parse(["rocm-", "core-"].iter().find_map(|start| name.strip_prefix(start))?)
}

/// The version of a Python package, which is in the name of its `dist-info` folder: `rocm_sdk_core-7.10.0.dist-info`.
fn package_version(package: &Path) -> Option<Version> {
    let name =
        package.file_name()?.to_str()?.strip_prefix('_').filter(|name| name.starts_with("rocm_sdk_"))?;
    let infos = sub_folders(package.parent()?, &format!("{name}-"));
    infos
        .iter()
        .find_map(|info| Version::parse(info.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('-')?))
}
