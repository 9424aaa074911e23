//! `cargo xtask structure`: finds import cycles between modules, and imports from a higher layer.
//!
//! Imports are read from `use` lines and from paths in the code, macros included. A name that a module re-exports belongs to the module
//! that defines it. Code for tests (`#[cfg(test)]`, `#[test]`) is left out. A file is one module, with the modules written in it.
//!
//! A module and those in its folder may import from each other: `foo.rs` holds what `foo/*.rs` share, and calls them. All others, such as
//! two files of one folder, may not.
//!
//! A crate has layers if the docs of its `lib.rs` have a section `# Layers`, see [`layers`].
mod cycles;
mod layers;
mod read;
mod resolve;
mod scan;
mod source;

use crate::page::root;
use source::Crate;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One module's import from another: the file and line of the first, and what is imported there.
#[derive(Clone, Debug)]
struct Edge {
    from: usize,
    to: usize,
    line: usize,
    what: String,
}

/// Checks every crate of the repository, or those whose roots (`src/lib.rs`, ...) are named.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if let Some(option) = args.iter().find(|arg| arg.starts_with('-')) {
        return Err(format!(
            "structure: no option `{option}`; arguments are crate roots, such as kernels/src/lib.rs"
        ));
    }
    let roots = if args.is_empty() { crate_roots()? } else { args.iter().map(PathBuf::from).collect() };
    let mut faults = Vec::new();
    let mut modules = 0;
    for file in &roots {
        let krate = Crate::read(&root(), file)?;
        modules += krate.files.len();
        faults.extend(check(&krate)?);
    }
    if faults.is_empty() {
        println!(
            "{modules} modules of {} crates: no import cycle, no import from a higher layer",
            roots.len()
        );
        return Ok(());
    }
    Err(format!("{}\n{} faults of structure", faults.join("\n"), faults.len()))
}

/// Finds what is wrong with a crate, one entry per fault.
fn check(krate: &Crate) -> Result<Vec<String>, String> {
    let edges = resolve::edges(krate);
    let mut faults = cycles::faults(krate, &edges);
    faults.extend(layers::faults(krate, &edges)?);
    Ok(faults)
}

/// The roots of all tracked crates.
fn crate_roots() -> Result<Vec<PathBuf>, String> {
    let out = Command::new("git").args(["ls-files", "*.rs"]).current_dir(root()).output();
    let out = out.map_err(|e| format!("git ls-files: {e}"))?;
    if !out.status.success() {
        return Err(format!("git ls-files: {}; a clone with git is needed", out.status));
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(text.lines().map(PathBuf::from).filter(|path| is_root(path)).collect())
}

fn is_root(path: &Path) -> bool {
    let in_folder = |folder| path.parent().is_some_and(|p| p.ends_with(folder));
    path.ends_with("src/lib.rs")
        || path.ends_with("src/main.rs")
        || path.ends_with("build.rs")
        || in_folder("src/bin")
        || in_folder("examples")
        || path.ends_with("main.rs")
            && path.parent().and_then(Path::parent).is_some_and(|p| p.ends_with("examples"))
}

#[cfg(test)]
mod tests;
