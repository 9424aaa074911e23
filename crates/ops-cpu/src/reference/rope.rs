//! Rotary position embedding.
use super::{Reference, line};
use crate::host::raw::{Raw, RawMut, table_rows};
use crate::{Host, Kernel};
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_core::{Call, Float, Op, Result};

/// The tables of a call, and the rows that its tokens use.
pub(super) struct Angles<'a> {
    cos: Raw<'a>,
    sin: Raw<'a>,
    rows: Vec<usize>,
    tokens: usize,
    adjacent: bool,
}

impl<'a> Angles<'a> {
    pub(super) fn new(
        op: &'static str,
        [cos, sin]: [Raw<'a>; 2],
        (positions, start): (Option<Raw<'_>>, usize),
        [b, tokens]: [usize; 2],
        adjacent: bool,
    ) -> Result<Self> {
        let bound = cos.dims()[cos.layout.rank() - 2];
        let rows = table_rows(op, positions, start, [b, tokens], bound)?;
        Ok(Angles { cos, sin, rows, tokens, adjacent })
    }

    /// Rotates as many leading features of a head as the tables have angles for.
    pub(super) fn rotated(&self, mut x: Vec<f64>, batch: usize, token: usize) -> Vec<f64> {
        let (row, half) = (self.rows[batch * self.tokens + token], self.cos.layout.last());
        for j in 0..half {
            // The batch shares one table, or there is one per batch entry.
            let at = |table: Raw<'_>| {
                table.f64(table.layout.position(&[batch, row, j][3 - table.layout.rank()..]))
            };
            let (c, s) = (at(self.cos), at(self.sin));
            let (p, q) = if self.adjacent { (2 * j, 2 * j + 1) } else { (j, j + half) };
            (x[p], x[q]) = (x[p] * c - x[q] * s, x[p] * s + x[q] * c);
        }
        x
    }
}

/// Calls `f` with the first three indices of every head of `x`.
pub(super) fn for_each_head(x: &[usize], mut f: impl FnMut([usize; 3])) {
    for n in 0..x[..3].iter().product() {
        f([n / x[2] / x[1], n / x[2] % x[1], n % x[2]]);
    }
}

/// Rotates `x` into `y`, or `y` in place if `x` is `None`.
fn rope(form: RopeForm, angles: &Angles<'_>, x: Option<Raw<'_>>, mut y: RawMut<'_>) {
    let ly = y.layout;
    for_each_head(ly.dims(), |at| {
        let head = match x {
            Some(x) => x.gather(line(&x.layout, 3, x.layout.position(&at))),
            None => y.as_raw().gather(line(&ly, 3, ly.position(&at))),
        };
        let token = if form == RopeForm::HalfThd { at[1] } else { at[2] };
        y.scatter(line(&ly, 3, ly.position(&at)), angles.rotated(head, at[0], token));
    });
}

/// The extents of batch and tokens.
fn tokens(form: RopeForm, x: &[usize]) -> [usize; 2] {
    [x[0], x[if form == RopeForm::HalfThd { 1 } else { 2 }]]
}

impl<T: Float> Kernel<Rope<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Rope<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, tables, positions) =
            (Raw::of(&a.x), [Raw::any(&a.cos), Raw::any(&a.sin)], Raw::any_if(&a.positions));
        let (tokens, adjacent) = (tokens(op.form, x.dims()), op.form == RopeForm::Interleaved);
        let angles = Angles::new(op.name(), tables, (positions, op.start), tokens, adjacent)?;
        rope(op.form, &angles, Some(x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Float> Kernel<RopeInplace<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RopeInplace<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (tables, positions) = ([Raw::any(&a.cos), Raw::any(&a.sin)], Raw::any_if(&a.positions));
        let y = RawMut::of(&mut a.x);
        let (tokens, adjacent) = (tokens(op.form, y.layout.dims()), op.form == RopeForm::Interleaved);
        let angles = Angles::new(op.name(), tables, (positions, op.start), tokens, adjacent)?;
        rope(op.form, &angles, None, y);
        Ok(())
    }
}
