//! Rehearsals: calls on one thread whose kernels are noted instead of launched.
use super::Kernels;
use crate::error::failed;
use ops_core::Result;
use ops_kernels::{Instance, Unit};
use std::cell::RefCell;

/// The units that calls on a device's kernels would use, in order of first use.
struct Rehearsal {
    kernels: *const Kernels,
    units: Vec<Unit>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rehearsal>> = const { RefCell::new(None) };
}

/// Ends the rehearsal, even if a call panics.
struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        CURRENT.take();
    }
}

/// Runs `calls`. Kernels launched by this thread meanwhile are noted instead. Returns the result of `calls`,
/// and the units.
pub(super) fn rehearse<R>(kernels: &Kernels, calls: impl FnOnce() -> R) -> Result<(R, Vec<Unit>)> {
    let nested = CURRENT.with_borrow(Option::is_some);
    if nested {
        return Err(failed(
            "preparing kernels",
            "this thread is already inside a `prepare`; call it once, around all ops",
        ));
    }
    let scope = Scope;
    CURRENT.set(Some(Rehearsal { kernels, units: Vec::new() }));
    let done = calls();
    let units = CURRENT.take().map(|rehearsal| rehearsal.units).unwrap_or_default();
    drop(scope);
    Ok((done, units))
}

/// Whether this thread is rehearsing calls on these kernels.
pub(super) fn is_on(kernels: &Kernels) -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|r| std::ptr::eq(r.kernels, kernels)))
}

/// Whether this thread is rehearsing calls on these kernels. If so, notes the unit of `instance`, which must
/// not be launched.
pub(super) fn notes(kernels: &Kernels, instance: &'static Instance) -> bool {
    CURRENT.with_borrow_mut(|current| {
        let Some(rehearsal) = current.as_mut().filter(|r| std::ptr::eq(r.kernels, kernels)) else {
            return false;
        };
        let unit = Unit::of(instance);
        if !rehearsal.units.contains(&unit) {
            rehearsal.units.push(unit);
        }
        true
    })
}
