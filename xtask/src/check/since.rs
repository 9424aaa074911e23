//! What has changed recently, according to git.
use crate::page::root;
use std::process::Command;

/// A change counts as recent for this many commits.
pub(crate) const RECENT: u32 = 40;

/// One in this many of the unchanged parts is checked each time.
pub(crate) const ONE_IN: u32 = 8;

/// The output of a git command; `None` if it fails, for example because there is no history.
pub(crate) fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).current_dir(root()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The commit that is checked out, followed by `+` if there are uncommitted changes.
pub(crate) fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { commit } else { commit + "+" })
}

/// The files at these paths whose content has changed in that many commits or is uncommitted. A file that was only renamed, or of which
/// only lines of comments changed, has not changed. `None` if the history is too short.
pub(crate) fn changed(commits: u32, paths: &[&str]) -> Option<Vec<String>> {
    let base = format!("HEAD~{commits}");
    // Paths are filtered here, not by git, which would report a file that was moved here as new.
    let differences = git(&["diff", "--name-status", "--find-renames=100%", &base])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let is_below = |file: &str, path: &str| {
        file == path || file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    };
    let differing = differences
        .lines()
        .filter(|line| !line.starts_with("R100"))
        .flat_map(|line| line.split('\t').skip(1));
    let files = differing.chain(new.lines()).filter(|file| paths.iter().any(|path| is_below(file, path)));
    let files = files.filter(|file| {
        let lines = git(&["diff", "--unified=0", "--no-renames", &base, "--", file]).unwrap_or_default();
        !is_of_comments(&lines)
    });
    Some(files.map(str::to_owned).collect())
}

/// Whether a difference, as git prints it, consists of lines of `//` comments.
fn is_of_comments(difference: &str) -> bool {
    let hunks = difference.lines().skip_while(|line| !line.starts_with("@@"));
    let mut changed = hunks.filter_map(|line| line.strip_prefix(['+', '-'])).peekable();
    changed.peek().is_some() && changed.all(|line| line.trim_start().starts_with("//"))
}

/// Whether it is the turn of the part with this number: in every [`ONE_IN`] successive commits, each part has one turn.
pub(crate) fn has_turn(number: usize) -> bool {
    let commits = git(&["rev-list", "--count", "HEAD"]).and_then(|count| count.parse::<usize>().ok());
    commits.is_none_or(|commits| (commits + number).is_multiple_of(ONE_IN as usize))
}

/// Today's date in UTC, such as 2026-11-28.
pub(crate) fn today() -> String {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date((seconds / 86400) as i64)
}

/// The date that many days after 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_785), "2026-11-28");
    }

    #[test]
    fn comments_are_no_change() {
        let head = "--- a/kernels/include/x.h\n+++ b/kernels/include/x.h\n@@ -1 +1 @@\n";
        assert!(is_of_comments(&format!("{head}-// old\n+  // new\n")));
        assert!(!is_of_comments(&format!("{head}-int a; // old\n+int a; // new\n")));
        assert!(!is_of_comments(""));
    }

    #[test]
    fn each_part_has_its_turn_once_in_eight_commits() {
        let turns = (0..ONE_IN as usize).filter(|&number| has_turn(number)).count();
        assert!(turns == 1 || git(&["rev-list", "--count", "HEAD"]).is_none());
    }
}
