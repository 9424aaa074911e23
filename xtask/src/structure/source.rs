//! A crate's modules, and what each contains.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A crate: its modules, of which the first is the root, and its files.
#[derive(Debug, Default)]
pub(super) struct Crate {
    /// The file of the root, relative to the repository.
    pub(super) root: PathBuf,
    pub(super) modules: Vec<Module>,
    pub(super) files: Vec<PathBuf>,
    /// Macros that `#[macro_export]` puts into the root, with the module that defines them.
    pub(super) macros: BTreeMap<String, usize>,
    /// The root's doc comment, by line.
    pub(super) docs: Vec<String>,
}

/// A module: what it contains, imports and mentions.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The names from the root; empty for the root.
    pub(super) path: Vec<String>,
    pub(super) parent: Option<usize>,
    /// Its place in [`Crate::files`].
    pub(super) file: usize,
    pub(super) children: BTreeMap<String, usize>,
    pub(super) imports: Vec<Import>,
    /// Names of items that are defined here.
    pub(super) defined: BTreeSet<String>,
    /// Paths of two and more names in the code.
    pub(super) paths: Vec<Mention>,
    /// Single names in the code that are used like an item: types, calls, macros.
    pub(super) names: BTreeMap<String, usize>,
}

/// A path at a line of the code.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// One name of a `use` line.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name that it has here; `None` for `*`.
    pub(super) name: Option<String>,
    /// `pub use`, `pub(crate) use` and so on.
    pub(super) public: bool,
    pub(super) line: usize,
}

impl Crate {
    /// Adds an empty module.
    pub(super) fn add(&mut self, path: Vec<String>, parent: Option<usize>, file: usize) -> usize {
        self.modules.push(Module { path, parent, file, ..Module::default() });
        self.modules.len() - 1
    }

    /// Whether one file's module contains the other's, or they are the same.
    pub(super) fn are_kin(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.module_of_file(one).path, &self.module_of_file(other).path);
        one.starts_with(other) || other.starts_with(one)
    }

    /// The module that a file is, as it is written in the crate's code.
    pub(super) fn module_of_file(&self, file: usize) -> &Module {
        // The first one of a file; others are written in it.
        self.modules.iter().find(|m| m.file == file).unwrap_or(&self.modules[0])
    }
}
