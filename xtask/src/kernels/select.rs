//! What `cargo xtask kernels --changed` compiles.
//!
//! Families whose sources changed recently are compiled for all targets. Every family is compiled for the target of step `aot`, which
//! uses these code objects. One in eight of the others, in turn, is also compiled for gfx1100, which has waves of 32, and so is a family
//! whose registers are not yet recorded with a fingerprint.
use super::fingerprint::of_sources;
use super::runs::Runs;
use crate::check::since::{self, ONE_IN, RECENT};
use ops_kernels::{Family, source};
use std::collections::BTreeSet;

/// The target whose code objects step `aot` embeds.
pub(super) const AOT: &str = "gfx942";

/// A target with waves of 32; those of [`AOT`] are of 64.
const WAVES_OF_32: &str = "gfx1100";

/// Why a family is compiled, or is not.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Its sources changed recently, or are not those that were recorded.
    Changed(&'static str),
    /// It has not changed, and it is its turn.
    Turn,
    Unrecorded,
    /// The last run.
    Unchanged(String),
}

impl State {
    /// Whether a family in this state is compiled for a target.
    pub(super) fn includes(&self, target: &str) -> bool {
        match self {
            State::Changed(_) => true,
            State::Turn | State::Unrecorded => target == WAVES_OF_32 || target == AOT,
            State::Unchanged(_) => target == AOT,
        }
    }
}

/// The state of each family.
pub(super) fn states() -> Vec<(Family, State)> {
    let (now, earlier) = (Runs::read(), Runs::earlier(RECENT));
    let files = since::changed(RECENT, &["kernels/hip", "kernels/include"]);
    let of = |(number, &family): (usize, &Family)| {
        let state = match now.fingerprint(family) {
            Some(recorded) if recorded != of_sources(family) => {
                State::Changed("its sources are not the recorded ones")
            }
            recorded => match &files {
                None => State::Changed("git does not say what changed"),
                Some(files) if has_changed(family, recorded, files, earlier.as_ref()) => {
                    State::Changed("its sources changed in the last 40 commits")
                }
                Some(_) if recorded.is_none() => State::Unrecorded,
                Some(_) if since::has_turn(number) => State::Turn,
                Some(_) => State::Unchanged(now.when(family).unwrap_or_default()),
            },
        };
        (family, state)
    };
    Family::ALL.iter().enumerate().map(of).collect()
}

/// Whether one of these files is among a family's sources, or the family had another fingerprint earlier.
fn has_changed(family: Family, recorded: Option<&str>, files: &[String], earlier: Option<&Runs>) -> bool {
    let before = earlier.and_then(|runs| runs.fingerprint(family));
    if before.is_some() && before == recorded {
        // Sources are compared by content, whatever files they are in.
        return false;
    }
    let sources = sources(family);
    before.is_some()
        || files.iter().any(|file| file.rsplit('/').next().is_some_and(|name| sources.contains(name)))
}

/// The names of the files that a family's source consists of.
fn sources(family: Family) -> BTreeSet<String> {
    let text = source::unit(family, []);
    let named = text.lines().filter_map(|line| line.strip_prefix("#line ")?.split('"').nth(1));
    named.filter_map(|name| name.rsplit('/').next()).map(str::to_owned).collect()
}

/// Prints what was chosen, and what was skipped.
pub(super) fn report(states: &[(Family, State)]) {
    let names = |wanted: &dyn Fn(&State) -> bool| -> Vec<&str> {
        states.iter().filter(|(_, state)| wanted(state)).map(|(family, _)| family.name()).collect()
    };
    for (family, state) in states {
        if let State::Changed(why) = state {
            println!("{}: for all targets, because {why}", family.name());
        }
    }
    let turn = names(&|s| *s == State::Turn);
    println!("for {WAVES_OF_32} and {AOT}, one in {ONE_IN} of the others: {}", turn.join(", "));
    let unrecorded = names(&|s| *s == State::Unrecorded);
    if !unrecorded.is_empty() {
        println!(
            "only for {WAVES_OF_32} and {AOT}, not yet recorded with a fingerprint (`cargo xtask kernels --record`): {}",
            unrecorded.join(", ")
        );
    }
    for (family, state) in states {
        if let State::Unchanged(when) = state {
            println!("{}: only for {AOT}; all targets last compiled {when}", family.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_family_count() {
        let (norm, none) = (sources(Family::Norm), [String::from("kernels/hip/softmax.hip")]);
        assert!(norm.contains("norm.hip") && norm.len() > 1, "{norm:?}");
        assert!(has_changed(Family::Softmax, None, &none, None));
        assert!(!has_changed(Family::Norm, None, &none, None));
    }

    #[test]
    fn every_family_is_compiled_for_the_target_of_aot() {
        assert!(states().iter().all(|(_, state)| state.includes(AOT)));
        assert!(State::Turn.includes("gfx1100") && !State::Unchanged(String::new()).includes("gfx1100"));
        assert!(State::Changed("").includes("gfx906") && !State::Turn.includes("gfx906"));
    }
}
