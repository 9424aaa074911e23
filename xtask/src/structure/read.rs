//! Reads a crate from its files.
use super::scan;
use super::source::Crate;
use std::path::{Path, PathBuf};

impl Crate {
    /// Reads a crate from its root's file, which is relative to `folder`.
    pub(super) fn read(folder: &Path, root: &Path) -> Result<Crate, String> {
        let mut krate = Crate { root: root.to_owned(), ..Crate::default() };
        krate.add_file(folder, root.to_owned(), Vec::new(), None)?;
        Ok(krate)
    }

    /// Reads the file of a module and those of the modules in it; returns the module.
    fn add_file(
        &mut self,
        folder: &Path,
        file: PathBuf,
        path: Vec<String>,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let whole = folder.join(&file);
        let text = std::fs::read_to_string(&whole).map_err(|e| format!("{}: {e}", whole.display()))?;
        // Module files are next to `mod.rs` or a root; for all others, in the folder with the module's name.
        let is_mod_file = parent.is_none() || file.file_name().is_some_and(|name| name == "mod.rs");
        let beside = file.parent().unwrap_or(Path::new("")).to_owned();
        let inside = if is_mod_file { beside.clone() } else { file.with_extension("") };
        self.files.push(file.clone());
        let module = self.add(path, parent, self.files.len() - 1);
        let found = scan::scan(self, module, &text).map_err(|e| format!("{}: {e}", file.display()))?;
        for declared in found {
            let path = self.modules[declared.module].path.clone();
            // An inline module's folder is that of its names below this file's module.
            let below = path[self.modules[module].path.len()..].iter();
            let child_folder = below.fold(inside.clone(), |folder, name| folder.join(name));
            let name = declared.name;
            let candidates = match declared.at {
                Some(at) if declared.module == module => vec![beside.join(at)],
                Some(at) => vec![child_folder.join(at)],
                None => {
                    vec![child_folder.join(format!("{name}.rs")), child_folder.join(&name).join("mod.rs")]
                }
            };
            let Some(child_file) = candidates.iter().find(|c| folder.join(c).is_file()) else {
                return Err(format!(
                    "{}: module `{name}` has no file {}",
                    file.display(),
                    candidates[0].display()
                ));
            };
            let path = path.into_iter().chain([name.clone()]).collect();
            let child = self.add_file(folder, child_file.clone(), path, Some(declared.module))?;
            self.modules[declared.module].children.insert(name, child);
        }
        Ok(module)
    }
}
