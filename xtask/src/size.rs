//! `cargo xtask size`: keeps clones small.
use crate::check::since::git;
use crate::page::root;

const MIB: f64 = (1 << 20) as f64;

/// Budget for all tracked files together, in MiB.
const TREE: f64 = 72.0;

/// Limit for a tracked file, in MiB.
const FILE: f64 = 12.0;

/// Fails on a tracked file over [`FILE`] and on a tree over [`TREE`].
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("size: no option `{unknown}`; there are none"));
    }
    let list = git(&["ls-files", "-z"]).ok_or("size: git ls-files failed; a clone with git is needed")?;
    let size = |name: &str| std::fs::symlink_metadata(root().join(name)).map_or(0, |file| file.len());
    let files = list.split('\0').filter(|name| !name.is_empty()).map(|name| (name.to_owned(), size(name)));
    let files: Vec<(String, u64)> = files.collect();
    let faults = faults(&files);
    if faults.is_empty() {
        let total = files.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / MIB;
        println!("{} tracked files, {total:.1} MiB of {TREE} MiB", files.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

fn faults(files: &[(String, u64)]) -> Vec<String> {
    let mib = |bytes: u64| bytes as f64 / MIB;
    let large = files.iter().filter(|(_, bytes)| mib(*bytes) > FILE);
    let mut out: Vec<String> = large
        .map(|(name, bytes)| format!("{name}: {:.1} MiB; the limit for a tracked file is {FILE} MiB. Make it smaller, or generate it in the test that reads it", mib(*bytes)))
        .collect();
    let total = files.iter().map(|(_, bytes)| mib(*bytes)).sum::<f64>();
    if total > TREE {
        let mut largest: Vec<&(String, u64)> = files.iter().collect();
        largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let largest =
            largest.iter().take(5).map(|(name, bytes)| format!("\n  {:.1} MiB  {name}", mib(*bytes)));
        out.push(format!(
            "tracked files: {total:.1} MiB; the budget is {TREE} MiB. The largest:{}",
            largest.collect::<String>()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_and_large_trees_are_faults() {
        let of =
            |sizes: &[u64]| faults(&sizes.iter().map(|s| (format!("f{s}"), s << 20)).collect::<Vec<_>>());
        assert!(of(&[12, 12, 12, 12, 12, 12]).is_empty());
        assert!(of(&[13])[0].starts_with("f13: 13.0 MiB"));
        let tree = of(&[12, 12, 12, 12, 12, 12, 1]);
        assert!(tree.len() == 1 && tree[0].contains("73.0 MiB"), "{tree:?}");
    }
}
