//! Reductions over axes.
use super::{Reference, line, lines, max};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use ops_core::ops::{ArgReduce, Axes, Reduce, ReduceFn};
use ops_core::{Call, Num, Result, Wide};

fn reduce(f: ReduceFn, x: Raw<'_>, mut y: RawMut<'_>, axes: Axes) -> Result<()> {
    let split = axes.split(f.name(), &x.layout, &y.layout)?;
    let start = split.reduced.offset();
    for (first, to) in split.kept.positions().zip(split.y.positions()) {
        let elements = split.reduced.positions().map(|p| first.wrapping_add(p).wrapping_sub(start));
        if x.dtype.is_float() {
            y.set(to, of_floats(f, &x.gather(elements)));
        } else {
            on_num!(x.dtype, T => y.set_wide(to, of_integers::<T>(f, elements.map(|p| x.wide(p)))), else unreachable!("only numbers are reduced"));
        }
    }
    Ok(())
}

fn of_floats(f: ReduceFn, x: &[f64]) -> f64 {
    match f {
        ReduceFn::Sum => x.iter().fold(0.0, |sum, v| sum + v),
        ReduceFn::Mean => x.iter().sum::<f64>() / x.len() as f64,
        ReduceFn::Max => max(x),
        ReduceFn::Min => -max(&x.iter().map(|v| -v).collect::<Vec<_>>()),
        ReduceFn::Prod => x.iter().product(),
        other => unreachable!("{} has no definition", other.name()),
    }
}

/// Computed in the type itself, whose arithmetic wraps.
fn of_integers<T: Num>(f: ReduceFn, x: impl Iterator<Item = Wide>) -> Wide {
    let x = x.map(T::from_wide);
    let one = || T::from_wide(Wide::Int(1));
    match f {
        ReduceFn::Sum => x.fold(T::from_wide(Wide::Int(0)), T::add),
        ReduceFn::Max => x.reduce(T::maximum).unwrap_or_else(one),
        ReduceFn::Min => x.reduce(T::minimum).unwrap_or_else(one),
        ReduceFn::Prod => x.fold(one(), T::mul),
        other => unreachable!("there is no {} of integers", other.name()),
    }
    .to_wide()
}

fn arg_reduce(x: Raw<'_>, mut y: RawMut<'_>, axis: usize, smallest: bool) {
    for (first, to) in lines(&x.layout, axis).zip(y.layout.positions()) {
        let mut best = (0, x.wide(first));
        for (i, p) in line(&x.layout, axis, first).enumerate() {
            let v = x.wide(p);
            let wins = if smallest { less(v, best.1) } else { less(best.1, v) };
            if !is_nan(best.1) && (wins || is_nan(v)) {
                best = (i, v);
            }
        }
        y.set_wide(to, Wide::Int(best.0 as i64));
    }
}

fn is_nan(v: Wide) -> bool {
    matches!(v, Wide::Float(v) if v.is_nan())
}

fn less(a: Wide, b: Wide) -> bool {
    match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => a < b,
        _ => a.to_f64() < b.to_f64(),
    }
}

impl<T: Num> Kernel<Reduce<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Reduce<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        reduce(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y), op.axes())
    }
}
impl<T: Num> Kernel<ArgReduce<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, ArgReduce<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        arg_reduce(x, RawMut::of(&mut a.y), x.layout.shape().axis(op.axis)?, op.smallest);
        Ok(())
    }
}
