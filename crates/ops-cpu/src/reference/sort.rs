//! Sorting along an axis, and the largest elements of rows.
use super::{Reference, line, lines};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use core::cmp::Ordering;
use ops_core::ops::{ArgSort, Sort, TopK};
use ops_core::{Call, Num, Result, Wide};

/// NaN is the largest, and zeros of either sign are equal.
fn compare(a: Wide, b: Wide) -> Ordering {
    match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}

/// The order of a line's elements.
fn order(x: &Raw<'_>, line: impl Iterator<Item = usize>, descending: bool) -> Vec<(usize, usize)> {
    let mut order: Vec<(usize, usize)> = line.enumerate().collect();
    // `sort_by` is stable.
    order.sort_by(|(_, a), (_, b)| {
        let ascending = compare(x.wide(*a), x.wide(*b));
        if descending { ascending.reverse() } else { ascending }
    });
    order
}

/// Sorts each line along `axis`. Writes as many elements and indices as the outputs have room for.
fn sort(
    x: Raw<'_>,
    (mut values, mut indices): (Option<RawMut<'_>>, Option<RawMut<'_>>),
    axis: usize,
    descending: bool,
) {
    let firsts = |y: &Option<RawMut<'_>>| y.as_ref().map(|y| lines(&y.layout, axis).collect::<Vec<_>>());
    let (to_values, to_indices) = (firsts(&values), firsts(&indices));
    for (i, px) in lines(&x.layout, axis).enumerate() {
        let order = order(&x, line(&x.layout, axis, px), descending);
        if let (Some(y), Some(to)) = (&mut values, to_values.as_ref().and_then(|to| to.get(i))) {
            for (to, (_, from)) in line(&y.layout.clone(), axis, *to).zip(&order) {
                y.element(to).copy_from_slice(x.element(*from));
            }
        }
        if let (Some(y), Some(to)) = (&mut indices, to_indices.as_ref().and_then(|to| to.get(i))) {
            for (to, (index, _)) in line(&y.layout.clone(), axis, *to).zip(&order) {
                y.set_wide(to, Wide::Int(*index as i64));
            }
        }
    }
}

impl<T: Num> Kernel<Sort<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Sort<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        let axis = x.layout.shape().axis(op.axis)?;
        sort(x, (Some(RawMut::of(&mut a.y)), None), axis, op.descending);
        Ok(())
    }
}
impl<T: Num> Kernel<ArgSort<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, ArgSort<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        let axis = x.layout.shape().axis(op.axis)?;
        sort(x, (None, Some(RawMut::of(&mut a.y))), axis, op.descending);
        Ok(())
    }
}
impl<T: Num> Kernel<TopK<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, TopK<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let x = Raw::of(&a.x);
        let outputs = (Some(RawMut::of(&mut a.values)), Some(RawMut::of(&mut a.indices)));
        sort(x, outputs, x.layout.shape().axis(-1)?, true);
        Ok(())
    }
}
