//! Which runs recorded the committed registers: `kernels/resources-runs.tsv`, one line per family.
//!
//! A line has the fingerprint of the family's sources, the date, and the commit (with `+` if files differed from it). Only `--record`
//! writes it, for the families that it has just compiled for all recorded targets.
use super::fingerprint::of_sources;
use crate::check::since;
use crate::page::{self, root};
use ops_kernels::Family;
use std::collections::BTreeMap;

const FILE: &str = "kernels/resources-runs.tsv";
const HEADING: &str = "family\tfingerprint of sources\tdate\tcommit";

/// The lines of the file, unparsed, by family name.
pub(super) struct Runs(BTreeMap<String, String>);

impl Runs {
    /// The committed lines; none if there is no file yet.
    pub(super) fn read() -> Runs {
        Runs::parse(&page::read(&root().join(FILE)).unwrap_or_default())
    }

    /// The lines as of some commits ago; `None` if there was no file.
    pub(super) fn earlier(commits: u32) -> Option<Runs> {
        since::git(&["show", &format!("HEAD~{commits}:{FILE}")]).map(|text| Runs::parse(&text))
    }

    fn parse(text: &str) -> Runs {
        let lines = text.lines().filter(|line| *line != HEADING);
        Runs(lines.filter_map(|line| Some((line.split('\t').next()?.to_owned(), line.to_owned()))).collect())
    }

    /// The fingerprint of a family's sources when its registers were recorded.
    pub(super) fn fingerprint(&self, family: Family) -> Option<&str> {
        self.0.get(family.name())?.split('\t').nth(1)
    }

    /// The date and the commit of a family's run.
    pub(super) fn when(&self, family: Family) -> Option<String> {
        let mut cells = self.0.get(family.name())?.split('\t').skip(2);
        Some(format!("{} at {}", cells.next()?, cells.next()?))
    }

    /// Notes that these families have just been compiled, for all recorded targets or only for some. In the latter case a family keeps its
    /// line only if its sources have not changed since the line was written.
    pub(super) fn note(mut self, families: &[Family], all_targets: bool) -> Result<(), String> {
        let commit = since::commit().unwrap_or_else(|| "unknown".into());
        self.update(families, all_targets, &format!("{}\t{commit}", since::today()));
        page::write(&root().join(FILE), &self.render())
    }

    fn update(&mut self, families: &[Family], all_targets: bool, when: &str) {
        for &family in families {
            let fingerprint = of_sources(family);
            if all_targets {
                let line = format!("{}\t{fingerprint}\t{when}", family.name());
                self.0.insert(family.name().to_owned(), line);
            } else if self.fingerprint(family) != Some(&fingerprint) {
                self.0.remove(family.name());
            }
        }
    }

    fn render(&self) -> String {
        let lines = Family::ALL.iter().filter_map(|family| self.0.get(family.name()));
        lines.fold(format!("{HEADING}\n"), |text, line| text + line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Families share headers, so a change for one can make the records of others stale.
    #[test]
    fn all_registers_are_recorded_for_the_present_sources() {
        let runs = Runs::read();
        let is_stale = |family: &&Family| runs.fingerprint(**family) != Some(&*of_sources(**family));
        let stale: Vec<_> = Family::ALL.iter().filter(is_stale).map(|family| family.name()).collect();
        assert!(stale.is_empty(), "run `cargo xtask kernels --record --family {}`", stale.join(","));
    }

    #[test]
    fn only_a_run_for_all_targets_writes_a_line() {
        let mut runs = Runs::parse("");
        runs.update(&[Family::Norm, Family::Cast], true, "2026-11-28\t12345678");
        let text = runs.render();
        let mut runs = Runs::parse(&text);
        assert_eq!(runs.render(), text);
        assert_eq!(runs.fingerprint(Family::Norm), Some(&*of_sources(Family::Norm)));
        assert_eq!(runs.when(Family::Norm).as_deref(), Some("2026-11-28 at 12345678"));
        assert_eq!(runs.fingerprint(Family::Softmax), None);
        // Only some targets: keep the line if the sources are unchanged, otherwise remove it.
        runs.update(&[Family::Norm], false, "later");
        assert_eq!(runs.render(), text);
        let mut other = Runs::parse(&text.replace(&of_sources(Family::Norm), "0"));
        other.update(&[Family::Norm], false, "later");
        assert_eq!((other.fingerprint(Family::Norm), other.0.len()), (None, 1));
    }
}
