//! Which kernels a run executed, as counted by the stand-in, and the reasons for those it left out.

use ops_kernels::{Family, Instance, instances};
use ops_test::proofs;
use standin_testing::Standin;

/// Kernels that a run cannot execute, and why.
pub(crate) struct Except {
    /// Whether a kernel is one of them on a target.
    pub(crate) kernels: fn(&Instance, &str) -> bool,
    pub(crate) reason: &'static str,
}

/// Checks that every kernel of these families that `gfx` can run was executed, except those listed. It is
/// also an error if a listed kernel was executed, so that no reason outlives its cause.
pub(crate) fn check(standin: &Standin, gfx: &str, families: &[Family], except: &[Except]) {
    let of_run = instances().iter().filter(|k| families.contains(&k.family) && k.runs_on(gfx));
    let (mut never, mut wrongly, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
    for kernel in of_run {
        let executed = standin.count(&format!("kernel {} on {gfx}", kernel.symbol)) > 0;
        let reason = except.iter().find(|e| (e.kernels)(kernel, gfx)).map(|e| e.reason);
        match (executed, reason) {
            (true, None) => symbols.push(kernel.symbol.as_str()),
            (true, Some(reason)) => wrongly.push(format!("{}: {reason}", kernel.symbol)),
            (false, None) => never.push(kernel.symbol.as_str()),
            (false, Some(_)) => {}
        }
    }
    println!("{gfx}: {} kernels executed", symbols.len());
    // Several tests execute kernels of a target; each has its own file.
    let test = families.iter().map(|family| family.name()).collect::<Vec<_>>();
    let test = if families.len() == Family::ALL.len() { "all".to_owned() } else { test.join(" ") };
    proofs::write_lines(env!("CARGO_TARGET_TMPDIR"), &format!("executed {gfx} {test}"), &symbols.join("\n"));
    assert!(
        never.is_empty(),
        "no case executes these {} kernels on {gfx}; add cases to the suite, or state a reason:\n{}",
        never.len(),
        never.join("\n")
    );
    assert!(
        wrongly.is_empty(),
        "executed on {gfx}, although listed as not executed:\n{}",
        wrongly.join("\n")
    );
}
