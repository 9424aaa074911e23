//! The cosine and sine tables of rotary embeddings, and which row each token uses.
use super::extents;
use crate::{DType, Error, Operand, Result};

/// The tables for rotating `x`.
pub(super) struct Angles<'a> {
    pub(super) op: &'static str,
    pub(super) cos: &'a Operand<'a>,
    pub(super) sin: &'a Operand<'a>,
    /// The row for each token; without it, consecutive rows from `start` on.
    pub(super) positions: Option<&'a Operand<'a>>,
    pub(super) start: usize,
}

impl Angles<'_> {
    /// Checks tables and positions for `b` batch entries of `t` tokens, with `d` features per head.
    pub(super) fn check(&self, [b, t, d]: [usize; 3]) -> Result<()> {
        for table in [self.cos, self.sin] {
            table.require(self.op, DType::is_computed, "f16, bf16, f32 or f64")?;
        }
        if let Some(positions) = self.positions {
            self.check_positions(positions, b, t)?;
        }
        let enough = |rows: usize| {
            self.positions.is_some() || self.start.checked_add(t).is_some_and(|end| end <= rows)
        };
        match *self.cos.dims() {
            [rows, half] if half <= d / 2 && enough(rows) => {}
            [batch, rows, half] if batch == b && half <= d / 2 && enough(rows) => {}
            _ => return Err(Error::shape(self.op, "cos", self.cos.layout, self.wanted(b, t, d / 2))),
        }
        extents(self.op, "sin", self.sin.layout, self.cos.dims())
    }

    fn check_positions(&self, positions: &Operand<'_>, b: usize, t: usize) -> Result<()> {
        positions.require(self.op, DType::is_index, "u8, u32, i32 or i64")?;
        match *positions.dims() {
            [batch, tokens] if tokens == t && (batch == b || batch == 1) => {}
            _ => {
                let want = format!("[{b}, {t}] or [1, {t}]");
                return Err(Error::shape(self.op, "positions", positions.layout, want));
            }
        }
        if self.start != 0 {
            return Err(Error::param(
                self.op,
                "start",
                self.start,
                "0 if positions are given, since they select the rows",
            ));
        }
        Ok(())
    }

    fn wanted(&self, b: usize, t: usize, half: usize) -> String {
        let tables = format!("[t', n] or [{b}, t', n] with n ≤ {half}");
        match self.positions {
            Some(_) => tables,
            None => format!("{tables} and t' ≥ start + t = {} + {t}", self.start),
        }
    }
}

/// Checks tables shared by `n` tokens, with `d` features per head, and the tokens' positions.
pub(super) fn check_rows(
    op: &'static str,
    [cos, sin]: [&Operand<'_>; 2],
    positions: &Operand<'_>,
    (n, d): (usize, usize),
) -> Result<()> {
    for table in [cos, sin] {
        table.require(op, DType::is_computed, "f16, bf16, f32 or f64")?;
    }
    positions.require(op, DType::is_index, "u8, u32, i32 or i64")?;
    extents(op, "positions", positions.layout, &[n])?;
    match *cos.dims() {
        [_, half] if half <= d / 2 => {}
        _ => return Err(Error::shape(op, "cos", cos.layout, format!("[t', n] with n ≤ {}", d / 2))),
    }
    extents(op, "sin", sin.layout, cos.dims())
}
