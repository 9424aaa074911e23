//! Which module each path of a crate leads to.
use super::Edge;
use super::source::{Crate, Import};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    /// A module itself.
    Module(usize),
    /// An item that this module defines.
    Item(usize),
    /// Something of another crate.
    Outside,
}

/// The imports of each file's module from others, one for each pair of files.
pub(super) fn edges(krate: &Crate) -> Vec<Edge> {
    let mut first: BTreeMap<(usize, usize), Edge> = BTreeMap::new();
    let resolver = Resolver { krate, known: RefCell::default() };
    for module in 0..krate.modules.len() {
        for (to, line, what) in resolver.uses_of(module) {
            let (from, to) = (krate.modules[module].file, krate.modules[to].file);
            if !krate.are_kin(from, to) {
                let edge = Edge { from, to, line, what };
                first
                    .entry((from, to))
                    .and_modify(|e| {
                        if line < e.line {
                            *e = edge.clone()
                        }
                    })
                    .or_insert(edge);
            }
        }
    }
    first.into_values().collect()
}

struct Resolver<'c> {
    krate: &'c Crate,
    /// What [`Resolver::lookup`] has found; nothing for names whose lookup is in progress, since imports may be circular.
    known: RefCell<HashMap<(usize, String, bool), Option<Target>>>,
}

impl Resolver<'_> {
    /// The modules that a module uses: their items, the line, and the path there.
    fn uses_of(&self, module: usize) -> Vec<(usize, usize, String)> {
        let m = &self.krate.modules[module];
        let mut out = Vec::new();
        let mut add = |target: Option<Target>, line: usize, path: &[String]| {
            if let Some(Target::Item(to)) = target {
                out.push((to, line, path.join("::")));
            }
        };
        for import in &m.imports {
            match &import.name {
                // A re-export by itself does not use the item.
                Some(name) if import.public && !m.names.contains_key(name) => {}
                Some(_) => add(self.resolve(module, &import.path), import.line, &import.path),
                None => {
                    let Some(Target::Module(from)) = self.resolve(module, &import.path) else { continue };
                    for (name, line) in &m.names {
                        add(self.lookup(from, name, false), *line, std::slice::from_ref(name));
                    }
                }
            }
        }
        for mention in &m.paths {
            add(self.resolve(module, &mention.path), mention.line, &mention.path);
        }
        out
    }

    /// Follows a path that is written in a module.
    fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        let mut at = module;
        let mut rest = path;
        let mut anchored = false;
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.krate.modules[at].parent?,
                _ => break,
            }
            anchored = true;
            rest = &rest[1..];
        }
        let Some((first, mut rest)) = rest.split_first() else { return Some(Target::Module(at)) };
        let found = self.lookup(at, first, !rest.is_empty());
        let mut target = if anchored { found.unwrap_or(Target::Item(at)) } else { found? };
        while let (Target::Module(at), Some((name, others))) = (target, rest.split_first()) {
            target = self.lookup(at, name, !others.is_empty()).unwrap_or(Target::Item(at));
            rest = others;
        }
        Some(target)
    }

    /// What a name is in a module; `None` if nothing there has it. The name leads on if another follows it.
    fn lookup(&self, module: usize, name: &str, leads_on: bool) -> Option<Target> {
        let key = (module, name.to_owned(), leads_on);
        if let Some(&known) = self.known.borrow().get(&key) {
            return known;
        }
        self.known.borrow_mut().insert(key.clone(), None);
        let found = self.search(module, name, leads_on);
        self.known.borrow_mut().insert(key, found);
        found
    }

    fn search(&self, module: usize, name: &str, leads_on: bool) -> Option<Target> {
        let m = &self.krate.modules[module];
        let child = m.children.get(name).map(|&child| Target::Module(child));
        if leads_on && child.is_some() {
            return child;
        }
        let named = |import: &&Import| import.name.as_deref() == Some(name);
        let through = m.imports.iter().filter(named).map(|import| self.import(module, import));
        // Of two things with one name, a module and an item, the one that can go on.
        let mut through: Vec<Target> = through.collect();
        through.sort_by_key(|target| matches!(target, Target::Module(_)) != leads_on);
        if let Some(&target) = through.first() {
            return Some(target);
        }
        if m.defined.contains(name) {
            return Some(Target::Item(module));
        }
        if let Some(&defines) = self.krate.macros.get(name).filter(|_| module == 0) {
            return Some(Target::Item(defines));
        }
        let globs = m.imports.iter().filter(|import| import.name.is_none());
        let mut in_globs = globs.filter_map(|import| match self.import(module, import) {
            Target::Module(from) if from != module => self.lookup(from, name, false),
            _ => None,
        });
        child.or_else(|| in_globs.next())
    }

    /// What an import of a module leads to.
    fn import(&self, module: usize, import: &Import) -> Target {
        let first = import.path.first().map(String::as_str);
        // `use name as other` and `pub(crate) use macro_name`: the name cannot be found by the import itself.
        let own = import.path.len() == 1 && first == import.name.as_deref();
        if own {
            let defined = self.krate.modules[module].defined.contains(&import.path[0]);
            return if defined { Target::Item(module) } else { Target::Outside };
        }
        self.resolve(module, &import.path).unwrap_or(Target::Outside)
    }
}
