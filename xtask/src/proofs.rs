//! `cargo xtask proofs`: compares the counts of what tests have shown with the committed `docs/proofs.tsv`.
//!
//! Tests write their counts to `target/proofs` as they run (`ops_test::proofs`); this command runs no tests. It fails if a count, or the
//! share of a target's kernels that the suite executes, is lower than committed. `--record` writes the file. If a count becomes lower,
//! `--why TEXT` must give the reason, which becomes part of the row.
use crate::check::{last_run, since};
use crate::page::{self, root};
use ops_kernels::{by_symbol, instances};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const FILE: &str = "docs/proofs.tsv";
const HEADING: &str = "# What tests show, and how often: written by `cargo xtask proofs --record`, compared by `cargo xtask check`.\n\
    proof\tcount\tof\tdate\tcommit\twhy it became less";

/// A proof's count; for kernels, also how many there are.
#[derive(Clone, Debug, PartialEq)]
struct Proof {
    count: usize,
    of: Option<usize>,
}

impl Proof {
    /// Whether this is less than `other`. Shares are compared if both have one.
    fn is_less(&self, other: &Proof) -> bool {
        match (self.of, other.of) {
            (Some(of), Some(other_of)) => self.count * other_of < other.count * of,
            _ => self.count < other.count,
        }
    }
}

/// Compares with the file, or writes it.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let (record, why) = match args {
        [] => (false, None),
        [record] if record == "--record" => (true, None),
        [record, flag, why] if record == "--record" && flag == "--why" && !why.contains(['\t', '\n']) => {
            (true, Some(why))
        }
        _ => return Err("proofs: the options are --record and, after it, --why TEXT".into()),
    };
    let found = found()?;
    let rows = rows(&page::read(&root().join(FILE)).unwrap_or_default());
    if found.contains_key("mutants detected") {
        last_run::note_mutants()?;
    }
    let lower: Vec<String> = lower(&found, &rows);
    if !record {
        for (name, proof) in &found {
            println!(
                "{:>7}{}  {name}",
                proof.count,
                proof.of.map_or(String::new(), |of| format!(" of {of}"))
            );
        }
        let new = found.keys().filter(|name| !rows.contains_key(*name));
        let new: Vec<String> =
            new.map(|name| format!("{name}: not recorded; `cargo xtask proofs --record` adds it")).collect();
        let faults = [lower, new].concat();
        return if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) };
    }
    if why.is_none() && !lower.is_empty() {
        return Err(format!("{}\nsay why: `cargo xtask proofs --record --why TEXT`", lower.join("\n")));
    }
    page::write(&root().join(FILE), &render(&found, &rows, why.map_or("", |why| why)))
}

/// Lists what is less than committed, or missing.
fn lower(found: &BTreeMap<String, Proof>, rows: &BTreeMap<String, (Proof, String)>) -> Vec<String> {
    let mut out = Vec::new();
    for (name, (committed, _)) in rows {
        match found.get(name) {
            // A run of only some mutants says nothing about their number.
            None if name == "mutants detected" && std::env::var("OPS_TEST_MUTANTS").is_ok() => {}
            None => out.push(format!(
                "{name}: no count in {}; the test did not run: `cargo test --workspace`",
                folder().display()
            )),
            Some(now) if now.is_less(committed) => {
                let share = |p: &Proof| p.of.map_or(p.count.to_string(), |of| format!("{} of {of}", p.count));
                out.push(format!(
                    "{name}: {}, which is less than the recorded {}",
                    share(now),
                    share(committed)
                ));
            }
            Some(_) => {}
        }
    }
    out
}

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    root().join(target).join("proofs")
}

/// The counts that tests have written, by name.
fn found() -> Result<BTreeMap<String, Proof>, String> {
    let at =
        |e: std::io::Error| format!("{}: {e}; tests write it: `cargo test --workspace`", folder().display());
    let mut out = BTreeMap::new();
    let mut executed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).map_err(at)? {
        let text = page::read(&entry.map_err(at)?.path())?;
        let (name, lines) = text.split_once('\n').ok_or("proofs: a file without a name")?;
        if let Some(gfx) = name.strip_prefix("executed ").and_then(|rest| rest.split(' ').next()) {
            executed.entry(gfx.to_owned()).or_default().extend(lines.lines().map(str::to_owned));
        } else {
            let count = lines.trim().parse().map_err(|e| format!("{name}: `{}`: {e}", lines.trim()))?;
            out.insert(name.to_owned(), Proof { count, of: None });
        }
    }
    for (gfx, symbols) in executed {
        let count =
            symbols.iter().filter(|symbol| by_symbol(symbol).is_some_and(|k| k.runs_on(&gfx))).count();
        let of = instances().iter().filter(|k| k.runs_on(&gfx)).count();
        out.insert(format!("kernels executed on {gfx}"), Proof { count, of: Some(of) });
    }
    Ok(out)
}

/// The committed rows: the proof, and the columns after its count.
fn rows(text: &str) -> BTreeMap<String, (Proof, String)> {
    let row = |line: &str| {
        let mut cells = line.splitn(4, '\t');
        let name = cells.next()?.to_owned();
        let proof = Proof { count: cells.next()?.parse().ok()?, of: cells.next()?.parse().ok() };
        Some((name, (proof, cells.next()?.to_owned())))
    };
    text.lines().filter_map(row).collect()
}

/// The file with new counts. Rows with unchanged counts stay unchanged.
fn render(found: &BTreeMap<String, Proof>, rows: &BTreeMap<String, (Proof, String)>, why: &str) -> String {
    let commit = since::commit().unwrap_or_else(|| "unknown".into());
    let mut out = format!("{HEADING}\n");
    let names: BTreeSet<&String> = found.keys().chain(rows.keys()).collect();
    for name in names {
        let before = rows.get(name);
        let (proof, rest) = match (found.get(name), before) {
            (Some(now), Some((before, rest))) if now == before => (now, rest.clone()),
            (Some(now), before) => {
                let why = if before.is_some_and(|(before, _)| now.is_less(before)) { why } else { "" };
                (now, format!("{}\t{commit}\t{why}", since::today()))
            }
            // It was not counted: remove the row if there is a reason.
            (None, Some((before, rest))) if why.is_empty() => (before, rest.clone()),
            (None, _) => continue,
        };
        out += &format!(
            "{name}\t{}\t{}\t{rest}\n",
            proof.count,
            proof.of.map_or(String::new(), |of| of.to_string())
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_share_is_a_fault_and_a_reason_is_kept() {
        let proof =
            |count, of| BTreeMap::from([("kernels executed on gfx90a".to_owned(), Proof { count, of })]);
        let (most, fewer) = (proof(90, Some(100)), proof(91, Some(110)));
        let committed = rows(&render(&most, &BTreeMap::new(), ""));
        assert_eq!(committed.values().next().unwrap().0, Proof { count: 90, of: Some(100) });
        assert!(lower(&most, &committed).is_empty());
        assert!(lower(&proof(180, Some(200)), &committed).is_empty());
        assert!(
            lower(&fewer, &committed)[0].contains("91 of 110, which is less than the recorded 90 of 100")
        );
        assert!(lower(&BTreeMap::new(), &committed)[0].contains("did not run"));
        let text = render(&fewer, &committed, "ten kernels came for a target that has no suite");
        assert!(text.ends_with("\tten kernels came for a target that has no suite\n"), "{text}");
        // Later counts that are the same keep the row.
        assert_eq!(render(&fewer, &rows(&text), ""), text);
    }

    #[test]
    fn counts_without_a_total_are_compared_as_they_are() {
        let of = |count| BTreeMap::from([("mutants detected".to_owned(), Proof { count, of: None })]);
        let committed = rows(&render(&of(612), &BTreeMap::new(), ""));
        assert!(lower(&of(613), &committed).is_empty());
        assert_eq!(lower(&of(611), &committed).len(), 1);
    }
}
