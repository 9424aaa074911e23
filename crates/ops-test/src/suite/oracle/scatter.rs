//! Ops that read and write elements by index, using offsets in row-major order.
use super::double::Double;
use super::{Wants, exactly, integers, logical, values, want};
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::ScatterAdd;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["gather", "scatter", "scatter_add", "index_add"];

/// For each element that has an index, in row-major order: its own position, and the position that the index
/// refers to in a tensor with extents `to`.
fn places(case: &Case, own: &[usize], to: &[usize]) -> Result<Vec<(usize, usize)>, CallError> {
    let axis = case.params.axis("axis")?.unwrap_or(0);
    let axis = usize::try_from(if axis < 0 { axis + own.len() as isize } else { axis }).unwrap_or(0);
    let ids = logical(case, "ids")?;
    let (bits, signed) = integers::width(ids.dtype())
        .ok_or_else(|| CallError::Malformed("ids does not hold integers".into()))?;
    let none = Wide::Int(((1i128 << (bits - u32::from(signed))) - 1) as i64);
    let ids = ids.to_wide()?;
    let shared = case.op == "index_add";
    let mut found = Vec::new();
    let len: usize = own.iter().product();
    for at in 0..len {
        let mut rest = at;
        let mut coordinates: Vec<usize> = own
            .iter()
            .rev()
            .map(|d| {
                let c = rest % d;
                rest /= d;
                c
            })
            .collect();
        coordinates.reverse();
        let id = ids[if shared { coordinates[axis] } else { at }];
        if let (Wide::Int(row), true) = (id, id != none) {
            coordinates[axis] = row as usize;
            found.push((at, coordinates.iter().zip(to).fold(0, |place, (c, d)| place * d + c)));
        }
    }
    Ok(found)
}

pub(super) fn wants(case: &Case) -> Wants {
    let dims = |name: &str| case.expect(name).map(|o| o.layout.dims().to_vec());
    if case.op == "gather" {
        let x = logical(case, "x")?;
        let own = dims("ids")?;
        let mut y = Array::zeroed(x.dtype(), own.iter().product())?;
        for (at, from) in places(case, &own, &dims("x")?)? {
            y.element_mut(at).copy_from_slice(x.element(from));
        }
        return Ok(vec![exactly("y", y)]);
    }
    let places = places(case, &dims("src")?, &dims("dst")?)?;
    if case.op == "scatter" {
        let (mut dst, src) = (logical(case, "dst")?, logical(case, "src")?);
        for (at, to) in places {
            dst.element_mut(to).copy_from_slice(src.element(at));
        }
        return Ok(vec![exactly("dst", dst)]);
    }
    let Some(range) = integers::width(case.dtype) else {
        let mut sums: Vec<Double> = values(case, "dst")?.of.into_iter().map(Double::of).collect();
        let src = values(case, "src")?.of;
        places.into_iter().for_each(|(at, to)| sums[to] = sums[to] + Double::of(src[at]));
        return Ok(vec![want(case, &ScatterAdd::<f64>::axis(0), "dst", &sums)?]);
    };
    let whole = |name: &str| -> Result<Vec<i128>, CallError> {
        let integer = |v: &Wide| if let Wide::Int(v) = v { i128::from(*v) } else { 0 };
        Ok(logical(case, name)?.to_wide()?.iter().map(integer).collect())
    };
    let (mut sums, src) = (whole("dst")?, whole("src")?);
    places.into_iter().for_each(|(at, to)| sums[to] += src[at]);
    let sums: Vec<i64> = sums.into_iter().map(|sum| integers::wrap(sum, range)).collect();
    Ok(vec![exactly("dst", integers::array(case.dtype, &sums)?)])
}
