//! When each step last passed: `xtask/last-runs.tsv`, for the steps that may be skipped.
//!
//! A step is noted when it has passed on a commit without other changes. The file is committed now and then; CI, which starts from a
//! clone, knows no other runs.
use super::since;
use super::steps::{MUTANTS, STEPS};
use crate::page::{self, root};
use std::path::PathBuf;

fn path() -> PathBuf {
    root().join("xtask/last-runs.tsv")
}

/// A line of the file.
struct Run {
    date: String,
    commit: String,
}

fn read(name: &str) -> Option<Run> {
    let text = page::read(&path()).ok()?;
    let mut cells = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))?.split('\t');
    Some(Run { date: cells.next()?.to_owned(), commit: cells.next()?.to_owned() })
}

/// The commit at which a step last passed.
pub(super) fn commit_of(name: &str) -> Option<String> {
    read(name).map(|run| run.commit)
}

/// When a step last passed, for messages.
pub(super) fn of(name: &str) -> String {
    read(name).map_or("not recorded".into(), |run| format!("{} at {}", run.date, run.commit))
}

/// Notes that all mutants were detected.
pub(crate) fn note_mutants() -> Result<(), String> {
    note(MUTANTS.name)
}

/// Notes that a step has just passed, if it may be skipped.
pub(super) fn note(name: &str) -> Result<(), String> {
    let may_be_skipped = STEPS.iter().chain([&MUTANTS]).any(|s| s.name == name && !s.subject.is_empty());
    // A pass with uncommitted changes says nothing about a commit. Lines of the file itself do not count as changes.
    let Some(commit) = since::git(&["rev-parse", "--short=8", "HEAD"]) else { return Ok(()) };
    let others =
        since::git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!xtask/last-runs.tsv"]);
    if !may_be_skipped || others.is_none_or(|others| !others.is_empty()) {
        return Ok(());
    }
    let text = page::read(&path()).unwrap_or_default();
    let start = format!("{name}\t");
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with(&start)).map(str::to_owned).collect();
    lines.push(format!("{name}\t{}\t{commit}", since::today()));
    std::fs::write(path(), lines.join("\n") + "\n").map_err(|e| format!("{}: {e}", path().display()))
}
