//! Which kernels a run executed, as the stand-in counts them, and why it leaves out the others.

use crate::standin::Standin;
use ops_kernels::{Family, Instance, instances};
use ops_test::proofs;

/// Kernels that a run cannot execute, and why.
pub(crate) struct Except {
    /// Whether it is one of them on a target.
    pub(crate) kernels: fn(&Instance, &str) -> bool,
    pub(crate) reason: &'static str,
}

/// Checks that every kernel of these families that `gfx` can run was executed, except those listed. A kernel that is
/// listed and yet executed is an error too, so that no reason outlives its cause.
pub(crate) fn check(standin: &Standin, gfx: &str, families: &[Family], except: &[Except]) {
    let of_run = instances().iter().filter(|k| families.contains(&k.family) && k.runs_on(gfx));
    let (mut never, mut wrongly, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
    for kernel in of_run {
        let executed = standin.count(&format!("kernel {}", kernel.symbol)) > 0;
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
        "executed on {gfx}, although there is a reason not to:\n{}",
        wrongly.join("\n")
    );
}
