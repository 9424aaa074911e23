//! Norm of heads, followed by rotation.
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
pub(super) struct Heads<'a> {
    pub(super) dtype: DType,
    pub(super) d: usize,
    pub(super) eps: f32,
    pub(super) pairs: Pairs,
    /// If absent, heads are not normed.
    pub(super) weight: Option<Cow<'a, [f32]>>,
    pub(super) cos: Cow<'a, [f32]>,
    pub(super) sin: Cow<'a, [f32]>,
    /// Number of columns of the tables.
    pub(super) half: usize,
}

impl Heads<'_> {
    /// Norms and rotates the heads of one token, with table row `angle`, in f32.
    fn token(&self, x: &[u8], angle: usize, [wide, from]: [&mut Scratch; 2], y: &mut [u8]) -> TaskResult {
        let (isa, n) = (Isa::best(), y.len() / self.dtype.size());
        let to = &mut cast_slice_mut::<u64, f32>(wide.words(n.div_ceil(2)))[..n];
        self.in_f32(x, angle, from, to)?;
        on_vector!(self.dtype, T => {
            Ok(ops_simd::cast(isa, to, cast_slice_mut::<u8, T>(y), Store::Cached)?)
        }, else Err(unsupported_dtype(self.dtype)))
    }

    /// Like [`token`](Self::token), without rounding the results.
    pub(super) fn in_f32(&self, x: &[u8], angle: usize, wide: &mut Scratch, y: &mut [f32]) -> TaskResult {
        let (isa, n) = (Isa::best(), y.len());
        on_vector!(self.dtype, T => {
            let x = cast_slice::<u8, T>(x);
            match &self.weight {
                None => ops_simd::cast(isa, x, y, Store::Cached)?,
                Some(weight) => {
                    let from = &mut cast_slice_mut::<u64, f32>(wide.words(n.div_ceil(2)))[..n];
                    ops_simd::cast(isa, x, from, Store::Cached)?;
                    vector::rms_norm(isa, from, weight, self.eps, y, Store::Cached)?;
                }
            }
        }, else return Err(unsupported_dtype(self.dtype)));
        self.rotate(isa, angle, y)
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
    // The table row for a token, counted over the batch.
    let angle = |token: usize| if batched { token } else { token % t };
    // Contiguous heads of a token are treated as one row.
    let tokens = |l: &Layout| l.reshape(&[b, t, h * d]).ok().filter(Layout::is_last_contiguous);
    if let (Some(lx), Some(ly)) = (tokens(&x.layout), tokens(&y.layout)) {
        let x = x.with_layout(lx);
        return for_each_row("qk_norm_rope", y.with_layout(ly), 4 * h * d, &|[scratch, wide, from], i, y| {
            heads.token(row(&x, i, scratch), angle(i), [wide, from], y)
        });
    }
    for_each_row("qk_norm_rope", y, 4 * d, &|[scratch, wide, from], i, y| {
        heads.token(row(&x, i, scratch), angle(i / h), [wide, from], y)
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
            weight: Some(widened(&weight)?),
            half: cos.layout.last(),
            cos: widened(&cos)?,
            sin: widened(&sin)?,
        };
        qk_norm_rope(&heads, cos.layout.rank() == 3, x, y)
    }
}
