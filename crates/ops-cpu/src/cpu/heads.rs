//! Norm of heads, then rotation.
use super::Cpu;
use super::angles::Picked;
use super::rows::{Scratch, for_each_row, row, widened};
use super::vectors::{TaskResult, on_vector, unsupported_dtype};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel, Reference};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{QkNormRope, RopeOrder};
use ops_core::{Call, DType, Float, Layout, Op, Result};
use ops_simd::rows::{self as vector, Pairs};
use ops_simd::{Isa, Store};
use std::borrow::Cow;

/// What all heads of a call share.
struct Heads<'a> {
    dtype: DType,
    d: usize,
    eps: f32,
    pairs: Pairs,
    weight: Cow<'a, [f32]>,
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    /// Columns of the tables.
    half: usize,
}

impl Heads<'_> {
    /// Norms and rotates the heads of one token, by row `angle` of the tables, in f32.
    fn token(&self, x: &[u8], angle: usize, wide: &mut Scratch, y: &mut [u8]) -> TaskResult {
        let (isa, n) = (Isa::best(), y.len() / self.dtype.size());
        let wide = cast_slice_mut::<u64, f32>(wide.words(n));
        let (from, to) = wide.split_at_mut(n);
        on_vector!(self.dtype, T => {
            ops_simd::cast(isa, cast_slice::<u8, T>(x), from, Store::Cached)?;
            vector::rms_norm(isa, from, &self.weight, self.eps, to, Store::Cached)?;
            self.rotate(isa, angle, to)?;
            Ok(ops_simd::cast(isa, to, cast_slice_mut::<u8, T>(y), Store::Cached)?)
        }, else Err(unsupported_dtype(self.dtype)))
    }

    fn rotate(&self, isa: Isa, angle: usize, heads: &mut [f32]) -> TaskResult {
        let (half, count) = (self.half, heads.len() / self.d);
        if half == 0 {
            return Ok(());
        }
        let (cos, sin) = (&self.cos[angle * half..][..half], &self.sin[angle * half..][..half]);
        if 2 * half == self.d {
            return Ok(vector::rope_in_place(isa, self.pairs, heads, self.d, cos, sin, count)?);
        }
        for head in heads.chunks_exact_mut(self.d) {
            vector::rope_in_place(isa, self.pairs, &mut head[..2 * half], 2 * half, cos, sin, 1)?;
        }
        Ok(())
    }
}

fn qk_norm_rope(heads: &Heads<'_>, batched: bool, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let &[b, t, h, d] = x.dims() else {
        return Err(ops_core::Error::shape("qk_norm_rope", "x", &x.layout, "four axes"));
    };
    // The row of the tables for a token, counted over the batch.
    let angle = |token: usize| if batched { token } else { token % t };
    // The heads of a token are one row where they lie side by side.
    let tokens = |l: &Layout| l.reshape(&[b, t, h * d]).ok().filter(Layout::is_last_contiguous);
    if let (Some(lx), Some(ly)) = (tokens(&x.layout), tokens(&y.layout)) {
        let x = x.with_layout(lx);
        return for_each_row("qk_norm_rope", y.with_layout(ly), 4 * h * d, &|[scratch, wide, _], i, y| {
            heads.token(row(&x, i, scratch), angle(i), wide, y)
        });
    }
    for_each_row("qk_norm_rope", y, 4 * d, &|[scratch, wide, _], i, y| {
        heads.token(row(&x, i, scratch), angle(i / h), wide, y)
    })
}

impl<T: Float> Kernel<QkNormRope<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, QkNormRope<T>, Host>) -> Result<()> {
        if T::DTYPE == DType::F64 {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let (x, weight, y) = (Raw::of(&a.x), Raw::any(&a.weight), RawMut::of(&mut a.y));
        let tokens = [x.dims()[0], x.dims()[1]];
        let given = [Raw::any(&a.cos), Raw::any(&a.sin)];
        let picked = match &a.positions {
            Some(positions) => Some(Picked::new(op.name(), given, Raw::any(positions), tokens)?),
            None => None,
        };
        let first = |table: Raw<'_>| table.layout.narrow(-2, 0, tokens[1]);
        let [cos, sin] = match &picked {
            Some(picked) => picked.tables(),
            None => {
                let [cos, sin] = given;
                let (of_cos, of_sin) = (first(cos)?, first(sin)?);
                [cos.with_layout(of_cos), sin.with_layout(of_sin)]
            }
        };
        if y.layout.is_empty() {
            return Ok(());
        }
        let heads = Heads {
            dtype: T::DTYPE,
            d: x.layout.last(),
            eps: op.eps as f32,
            pairs: if op.order == RopeOrder::Interleaved { Pairs::Adjacent } else { Pairs::Halves },
            weight: widened(&weight)?,
            half: cos.layout.last(),
            cos: widened(&cos)?,
            sin: widened(&sin)?,
        };
        qk_norm_rope(&heads, cos.layout.rank() == 3, x, y)
    }
}
