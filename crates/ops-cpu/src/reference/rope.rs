//! Rotary position embedding.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_core::{Call, Float, Layout, Result};

/// Two elements of `x` and the angle that rotates them, as indices rather than positions.
struct Pair {
    first: [usize; 4],
    second: [usize; 4],
    /// Batch, token and frequency index.
    angle: [usize; 3],
}

/// All pairs of `x`.
fn pairs(form: RopeForm, start: usize, x: &Layout) -> impl Iterator<Item = Pair> + use<> {
    let half = x.last() / 2;
    let pairs = x.narrow(3, 0, half).unwrap_or(*x);
    (0..pairs.len()).map(move |n| {
        let i = pairs.index_of(n);
        let (b, i1, i2, j) = (i[0], i[1], i[2], i[3]);
        let token = start + if form == RopeForm::HalfThd { i1 } else { i2 };
        let (first, second) = if form == RopeForm::Interleaved { (2 * j, 2 * j + 1) } else { (j, j + half) };
        Pair { first: [b, i1, i2, first], second: [b, i1, i2, second], angle: [b, token, j] }
    })
}

/// An entry of a table that is shared by the batch or has one part per batch entry.
fn entry(table: Raw<'_>, angle: &[usize; 3]) -> f64 {
    table.f64(table.layout.position(&angle[3 - table.layout.rank()..]))
}

/// Rotates `x` into `y`, or `y` in place if `x` is `None`.
fn rope(form: RopeForm, start: usize, x: Option<Raw<'_>>, cos: Raw<'_>, sin: Raw<'_>, mut y: RawMut<'_>) {
    let ly = y.layout;
    let lx = x.map_or(ly, |x| x.layout);
    for pair in pairs(form, start, &lx) {
        let (c, s) = (entry(cos, &pair.angle), entry(sin, &pair.angle));
        let value =
            |at: &[usize; 4]| x.map_or_else(|| y.as_raw().f64(lx.position(at)), |x| x.f64(lx.position(at)));
        let (x1, x2) = (value(&pair.first), value(&pair.second));
        y.set(ly.position(&pair.first), x1 * c - x2 * s);
        y.set(ly.position(&pair.second), x1 * s + x2 * c);
    }
}

impl<T: Float> Kernel<Rope<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Rope<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (cos, sin, y) = (Raw::any(&a.cos), Raw::any(&a.sin), RawMut::of(&mut a.y));
        rope(op.form, op.start, Some(Raw::of(&a.x)), cos, sin, y);
        Ok(())
    }
}
impl<T: Float> Kernel<RopeInplace<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RopeInplace<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        rope(op.form, op.start, None, Raw::any(&a.cos), Raw::any(&a.sin), RawMut::of(&mut a.x));
        Ok(())
    }
}
