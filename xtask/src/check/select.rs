//! Which steps a check runs.
use super::USAGE;
use super::steps::{MUTANTS, STEPS, Step, names};
use super::{last_run, since};

/// The steps that run, and the names of those that do not, with the reason.
pub(super) struct Plan {
    pub(super) steps: Vec<&'static Step>,
    pub(super) skipped: Vec<(&'static str, String)>,
    /// `--all`
    pub(super) all: bool,
}

/// The steps that the arguments select, except those whose subject has not changed.
pub(super) fn plan(args: &[String]) -> Result<Plan, String> {
    plan_where(args, &unchanged)
}

/// Why a step need not run; `None` if it must.
type Unchanged<'u> = &'u dyn Fn(usize, &Step) -> Option<String>;

fn plan_where(args: &[String], unchanged: Unchanged<'_>) -> Result<Plan, String> {
    let known = |(i, a): (usize, &String)| {
        let after_flag = i > 0 && matches!(args[i - 1].as_str(), "--from" | "--without");
        after_flag || matches!(a.as_str(), "--quick" | "--all" | "--from" | "--without" | "--beside")
    };
    if let Some((_, unknown)) = args.iter().enumerate().find(|at| !known(*at)) {
        return Err(format!("`{unknown}` is not an option of check\n{USAGE}"));
    }
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let value = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    let (quick, all) = (has("--quick"), has("--all"));
    if quick && all {
        return Err(format!("--quick skips steps and --all skips none: give one of them\n{USAGE}"));
    }
    let unknown = |name: &String| format!("no step `{name}`; there are:{}", names());
    let at = |name: &String| STEPS.iter().position(|s| s.name == name).ok_or_else(|| unknown(name));
    let begin = value("--from").map_or(Ok(0), at)?;
    let without = value("--without").map(at).transpose()?;
    let mut plan = Plan { steps: Vec::new(), skipped: Vec::new(), all };
    if let Ok(part) = std::env::var("OPS_TEST_MUTANTS") {
        plan.skipped.push((MUTANTS.name, format!("only {part} of them (OPS_TEST_MUTANTS)")));
    }
    for (i, step) in STEPS.iter().enumerate().skip(begin) {
        let why = if Some(i) == without {
            Some("--without".to_owned())
        } else if quick && step.slow {
            Some("--quick".to_owned())
        } else if all {
            None
        } else {
            unchanged(i, step)
        };
        match why {
            Some(why) => plan.skipped.push((step.name, why)),
            None => plan.steps.push(step),
        }
    }
    Ok(plan)
}

/// A step need not run if it passed at a recorded commit, its subject has changed neither since then nor in the last commits, and it is
/// not its turn.
fn unchanged(number: usize, step: &Step) -> Option<String> {
    if step.subject.is_empty() || since::has_turn(number) {
        return None;
    }
    let commit = last_run::commit_of(step.name)?;
    let behind = since::git(&["rev-list", "--count", &format!("{commit}..HEAD")])?.parse::<u32>().ok()?;
    let commits = behind.max(since::RECENT);
    let changed = since::changed(commits, step.subject)?;
    changed.is_empty().then(|| format!("none of the files that it checks changed in {commits} commits"))
}

/// The value of `OPS_TEST_MUTANTS` if a part of the mutants suffices; `None` if all must run.
pub(super) fn mutants() -> Option<String> {
    unchanged(STEPS.len(), &MUTANTS)?;
    let commits = since::git(&["rev-list", "--count", "HEAD"])?.parse::<u32>().ok()?;
    Some(format!("{}/{}", commits % since::ONE_IN + 1, since::ONE_IN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(args: &[&str]) -> Result<Plan, String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        plan_where(&args, &|_, step| (step.name == "sanitizer").then(|| "the same".to_owned()))
    }

    fn names_of(args: &[&str]) -> Result<Vec<&'static str>, String> {
        plan_of(args).map(|plan| plan.steps.iter().map(|s| s.name).collect())
    }

    #[test]
    fn arguments_select_steps() {
        assert_eq!(names_of(&["--all"]).unwrap().len(), STEPS.len());
        assert_eq!(names_of(&["--from", "fuzz traces"]).unwrap(), ["fuzz traces", "overhead", "launch"]);
        assert!(!names_of(&["--without", "launch"]).unwrap().contains(&"launch"));
        assert!(!names_of(&["--quick", "--beside"]).unwrap().contains(&"fuzz"));
        assert!(names_of(&["--from", "nothing"]).unwrap_err().contains("fuzz traces"));
        assert!(names_of(&["--alll"]).unwrap_err().contains("`--alll`"));
        assert!(names_of(&["--all", "--quick"]).is_err());
    }

    #[test]
    fn what_is_skipped_is_listed() {
        let mut plan = plan_of(&["--without", "fuzz"]).unwrap();
        plan.skipped.retain(|(name, _)| *name != MUTANTS.name);
        assert_eq!(plan.skipped, [("sanitizer", "the same".to_owned()), ("fuzz", "--without".to_owned())]);
        assert_eq!(plan.steps.len() + 2, STEPS.len());
    }
}
