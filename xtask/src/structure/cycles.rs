//! Import cycles: groups of modules each of which imports all others, directly or through one another.
use super::Edge;
use super::source::Crate;
use std::collections::VecDeque;

/// One fault per group, with a shortest cycle in it and every import between its modules.
pub(super) fn faults(krate: &Crate, edges: &[Edge]) -> Vec<String> {
    groups(krate.files.len(), edges).iter().map(|group| describe(krate, edges, group)).collect()
}

/// The groups of two or more files.
fn groups(files: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let reach: Vec<Vec<Option<usize>>> =
        (0..files).map(|from| before_on_shortest_way(files, edges, from)).collect();
    let leads = |from: usize, to: usize| reach[from][to].is_some();
    let group =
        |file| (0..files).filter(|&other| leads(file, other) && leads(other, file)).collect::<Vec<_>>();
    // Each group once, at its first file.
    (0..files)
        .map(|file| (file, group(file)))
        .filter(|(file, g)| g.len() > 1 && g[0] == *file)
        .map(|(_, g)| g)
        .collect()
}

/// The predecessor of each file on a shortest path from `from`; `None` for unreachable files.
fn before_on_shortest_way(files: usize, edges: &[Edge], from: usize) -> Vec<Option<usize>> {
    let mut before = vec![None; files];
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for edge in edges.iter().filter(|e| e.from == at) {
            if before[edge.to].is_none() {
                before[edge.to] = Some(at);
                queue.push_back(edge.to);
            }
        }
    }
    before
}

/// A shortest cycle through a file of the group.
fn cycle(files: usize, edges: &[Edge], start: usize) -> Vec<usize> {
    let before = before_on_shortest_way(files, edges, start);
    let mut out = vec![start];
    let mut at = start;
    while let Some(previous) = before[at] {
        out.push(previous);
        at = previous;
        if at == start {
            break;
        }
    }
    out.reverse();
    out
}

fn describe(krate: &Crate, edges: &[Edge], group: &[usize]) -> String {
    let shortest = group.iter().map(|&start| cycle(krate.files.len(), edges, start)).min_by_key(Vec::len);
    let names: Vec<String> = shortest.unwrap_or_default().iter().map(|&file| name(krate, file)).collect();
    let mut out = format!(
        "{}: {} modules import each other, such as {}",
        krate.root.display(),
        group.len(),
        names.join(" -> ")
    );
    for edge in edges.iter().filter(|e| group.contains(&e.from) && group.contains(&e.to)) {
        out += &format!(
            "\n    {}:{}: {} (of {})",
            krate.files[edge.from].display(),
            edge.line,
            edge.what,
            name(krate, edge.to)
        );
    }
    out
}

/// A file's module as it is written.
pub(super) fn name(krate: &Crate, file: usize) -> String {
    let path = &krate.module_of_file(file).path;
    if path.is_empty() { "crate".into() } else { path.join("::") }
}
