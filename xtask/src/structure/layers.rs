//! Layers: the list in the docs of a crate's root, under the heading `# Layers`.
//!
//! ```text
//! # Layers
//!
//! 1. `error`, `hip`: devices and memory
//! 2. `vendor`: AMD's libraries
//! ```
//!
//! A module may import from those of its own line and of the lines before it. Every module of the root must be in the list. Only the names
//! before the colon count.
use super::Edge;
use super::cycles::name;
use super::source::Crate;
use std::collections::BTreeMap;

/// Imports from a higher layer, and modules that the list lacks.
pub(super) fn faults(krate: &Crate, edges: &[Edge]) -> Result<Vec<String>, String> {
    let layers = layers(&krate.docs);
    if layers.is_empty() {
        return Ok(Vec::new());
    }
    let root = krate.root.display();
    let children = &krate.modules[0].children;
    if let Some(unknown) = layers.keys().find(|module| !children.contains_key(*module)) {
        return Err(format!("{root}: `{unknown}` is in the list of layers, but is not a module of the root"));
    }
    let missing = children.keys().filter(|child| !layers.contains_key(*child));
    let mut out: Vec<String> = missing
        .map(|child| format!("{root}: module `{child}` is in no layer; add it to the list under `# Layers`"))
        .collect();
    let layer = |file: usize| layers.get(krate.module_of_file(file).path.first()?).copied();
    for edge in edges {
        if let (Some(from), Some(to)) = (layer(edge.from), layer(edge.to))
            && to > from
        {
            out.push(format!(
                "{}:{}: `{}` (layer {from}) imports {} of `{}` (layer {to}, which is higher)",
                krate.files[edge.from].display(),
                edge.line,
                name(krate, edge.from),
                edge.what,
                name(krate, edge.to),
            ));
        }
    }
    Ok(out)
}

/// The layer of each module, counted from the lowest; empty if the docs have no such section.
fn layers(docs: &[String]) -> BTreeMap<String, usize> {
    let section =
        docs.iter().skip_while(|line| *line != "# Layers").skip(1).take_while(|line| !line.starts_with("# "));
    let mut out = BTreeMap::new();
    for line in section {
        let Some((number, rest)) = line.split_once(". ") else { continue };
        let Ok(layer) = number.parse::<usize>() else { continue };
        let names = rest.split(':').next().unwrap_or_default();
        out.extend(names.split('`').skip(1).step_by(2).map(|module| (module.to_owned(), layer)));
    }
    out
}
