//! Runs of elements, on which functions of one element are computed.
use super::rows::{for_each_row, row};
use super::threads;
use super::vectors::TaskResult;
use crate::host::raw::{Raw, RawMut};
use ops_core::{Layout, Result};

/// Processes one run of each input and of the output.
type MapFn<'f, const N: usize> = &'f (dyn Fn([&[u8]; N], &mut [u8]) -> TaskResult + Sync);

/// Minimum elements per run: enough to hide the overhead of the loop around it.
const MIN_RUN: usize = 4096;
/// Maximum elements per run.
const MAX_RUN: usize = 1 << 16;

/// Returns the units per run for `units` units of `unit` elements: enough runs for all tasks, with a small remainder.
fn run_length(units: usize, unit: usize) -> usize {
    let tasks = threads::tasks();
    let runs = tasks * (units.saturating_mul(unit)).div_ceil(MAX_RUN * tasks);
    (units / runs).max(MIN_RUN / unit).clamp(1, units)
}

/// Calls `f(x, y)` on runs of whole rows of `unit` elements, in parallel if the work is large enough; `cost` is the work of
/// one element.
///
/// With a unit of 1, for elementwise functions, axes are merged as far as the layouts of all operands allow. A run spans
/// several rows only if all operands are contiguous.
pub(super) fn map_runs<const N: usize>(
    op: &'static str,
    x: [Raw<'_>; N],
    mut y: RawMut<'_>,
    unit: usize,
    cost: usize,
    f: MapFn<'_, N>,
) -> Result<()> {
    let len = y.layout.len();
    let flat = y.layout.is_contiguous() && x.iter().all(|x| x.layout.is_contiguous());
    if flat && len > 0 && unit > 0 {
        let run = unit * run_length(len / unit, unit);
        let whole = len / run * run;
        for (start, dims) in [(0, [len / run, run]), (whole, [1, len - whole])] {
            let part = |l: &Layout| Layout::strided(&dims, &[dims[1] as isize, 1], l.extent().start + start);
            let (ly, lx) = (part(&y.layout)?, map_layouts(&x, part)?);
            if !ly.is_empty() {
                let x = core::array::from_fn(|i| x[i].with_layout(lx[i]));
                map_each_row(op, x, y.reborrow().with_layout(ly), cost, f)?;
            }
        }
        return Ok(());
    }
    if unit != 1 {
        return map_each_row(op, x, y, cost, f);
    }
    let mut all = [&y.layout; 4];
    for (slot, x) in all[1..].iter_mut().zip(&x) {
        *slot = &x.layout;
    }
    let merged = Layout::merged(all);
    let x = core::array::from_fn(|i| x[i].with_layout(merged[i + 1]));
    map_each_row(op, x, y.with_layout(merged[0]), cost, f)
}

fn map_layouts<const N: usize>(
    x: &[Raw<'_>; N],
    part: impl Fn(&Layout) -> Result<Layout>,
) -> Result<[Layout; N]> {
    let mut layouts = x.map(|x| x.layout);
    for l in &mut layouts {
        *l = part(l)?;
    }
    Ok(layouts)
}

fn map_each_row<const N: usize>(
    op: &'static str,
    x: [Raw<'_>; N],
    y: RawMut<'_>,
    cost: usize,
    f: MapFn<'_, N>,
) -> Result<()> {
    const { assert!(N <= 3, "a task has scratch memory for rows of three operands") }
    let n = y.layout.last();
    for_each_row(op, y, n.saturating_mul(cost), &|scratch, i, out| {
        let mut free = scratch.iter_mut();
        let rows = x.each_ref().map(|x| free.next().map_or(&[][..], |s| row(x, i, s)));
        f(rows, out)
    })
}
