//! Which kernels a run executed, as counted by the stand-in, and the reasons for those it left out.

use ops_kernels::{Family, Instance, instances};
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
    let (mut never, mut wrongly, mut count) = (Vec::new(), Vec::new(), 0);
    for kernel in of_run {
        let executed = standin.count(&format!("kernel {}", kernel.symbol)) > 0;
        let reason = except.iter().find(|e| (e.kernels)(kernel, gfx)).map(|e| e.reason);
        match (executed, reason) {
            (true, None) => count += 1,
            (true, Some(reason)) => wrongly.push(format!("{}: {reason}", kernel.symbol)),
            (false, None) => never.push(kernel.symbol.as_str()),
            (false, Some(_)) => {}
        }
    }
    println!("{gfx}: {count} kernels executed");
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
