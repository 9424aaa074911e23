//! Linear attention.
use super::rows::{Rows, Scratch, for_each_row, row, widened};
use super::vectors::{TaskResult, on_vector, report, unsupported_dtype};
use super::{Cpu, threads};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel, Reference};
use bytemuck::{cast_slice, cast_slice_mut};
use core::ops::Range;
use ops_core::ops::{Conv1dUpdate, ConvActivation, GatedDeltaRule};
use ops_core::{Call, DType, Float, Layout, Result};
use ops_simd::{Isa, Store, Unary, unary_in_place};
use std::borrow::Cow;

/// Number of partial sums of a dot product over features.
const PARTS: usize = 4;

/// The inputs of a convolution and their factors, in f32.
struct Line<'a> {
    x: Raw<'a>,
    /// `[b, w − 1, c]`
    state: Vec<f32>,
    /// `[w, c]`
    weight: Vec<f32>,
    bias: Option<Cow<'a, [f32]>>,
    /// Extents t, c and w.
    dims: [usize; 3],
    silu: bool,
}

impl Line<'_> {
    /// The outputs of one token, in row `i` of `x`.
    fn token(&self, i: usize, [from, wide, sums]: &mut [Scratch; 3], y: &mut [u8]) -> TaskResult {
        let ([t, c, w], isa) = (self.dims, Isa::best());
        let (batch, token) = (i / t, i % t);
        let wide = &mut cast_slice_mut::<u64, f32>(wide.words(c.div_ceil(2)))[..c];
        let sums = &mut cast_slice_mut::<u64, f32>(sums.words(c.div_ceil(2)))[..c];
        sums.fill(0.0);
        for (j, weight) in self.weight.chunks_exact(c).enumerate() {
            // The position in the state, or after it in `x`.
            let at = token + j;
            let inputs = if at < w - 1 {
                &self.state[(batch * (w - 1) + at) * c..][..c]
            } else {
                let x = row(&self.x, batch * t + at - (w - 1), from);
                on_vector!(self.x.dtype, T => {
                    ops_simd::cast(isa, cast_slice::<u8, T>(x), wide, Store::Cached)?
                }, else return Err(unsupported_dtype(self.x.dtype)));
                &*wide
            };
            for ((sum, x), weight) in sums.iter_mut().zip(inputs).zip(weight) {
                *sum += x * weight;
            }
        }
        if let Some(bias) = &self.bias {
            sums.iter_mut().zip(&**bias).for_each(|(sum, bias)| *sum += bias);
        }
        if self.silu {
            unary_in_place(isa, Unary::Silu, sums);
        }
        on_vector!(self.x.dtype, T => {
            Ok(ops_simd::cast(isa, sums, cast_slice_mut::<u8, T>(y), Store::Cached)?)
        }, else Err(unsupported_dtype(self.x.dtype)))
    }
}

/// A view of three axes with the last two exchanged, in f32 and row-major order.
fn exchanged(x: &Raw<'_>) -> Result<Vec<f32>> {
    let layout = x.layout.transpose(-1, -2)?;
    Ok(widened(&x.with_layout(layout))?.into_owned())
}

/// Sets the state to the last inputs. Older ones move to the front first.
fn keep_last(x: Raw<'_>, mut state: RawMut<'_>) {
    let (ls, &[b, c, kept]) = (state.layout, state.layout.dims()) else { return };
    let t = x.dims()[1];
    for (batch, channel) in (0..b).flat_map(|batch| (0..c).map(move |channel| (batch, channel))) {
        for k in 0..if t == 0 { 0 } else { kept } {
            let to = ls.position(&[batch, channel, k]);
            if t + k < kept {
                let from = ls.position(&[batch, channel, t + k]) * state.size;
                state.bytes.copy_within(from..from + state.size, to * state.size);
            } else {
                let from = x.layout.position(&[batch, t + k - kept, channel]);
                state.element(to).copy_from_slice(x.element(from));
            }
        }
    }
}

impl<T: Float> Kernel<Conv1dUpdate<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Conv1dUpdate<T>, Host>) -> Result<()> {
        if T::DTYPE == DType::F64 {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let (x, weight) = (Raw::of(&a.x), Raw::of(&a.weight));
        let bias = Raw::any_if(&a.bias);
        let [t, c, w] = [x.dims()[1], x.dims()[2], weight.layout.last()];
        if x.layout.is_empty() {
            return Ok(());
        }
        let line = Line {
            x,
            state: exchanged(&RawMut::of(&mut a.state).as_raw())?,
            weight: exchanged(&weight)?,
            bias: bias.as_ref().map(widened).transpose()?,
            dims: [t, c, w],
            silu: op.activation == ConvActivation::Silu,
        };
        for_each_row("conv1d_update", RawMut::of(&mut a.y), 2 * w * c, &|scratch, i, y| {
            line.token(i, scratch, y)
        })?;
        keep_last(x, RawMut::of(&mut a.state));
        Ok(())
    }
}

/// The delta rule's inputs, with heads before tokens, and its outputs.
struct Delta<'a> {
    /// Rows of features, `[b, h, t, d]` and `[b, h, t, dv]`.
    q: Raw<'a>,
    k: Raw<'a>,
    v: Raw<'a>,
    /// `[b, h, t]`
    decay: Cow<'a, [f32]>,
    beta: Cow<'a, [f32]>,
    scale: f32,
    /// Extents t, d and dv.
    dims: [usize; 3],
    /// The states before the first token, `[b, h, d, dv]`.
    states: Vec<f32>,
    o: Rows<'a>,
    state: Rows<'a>,
}

/// Row `i` in f32.
fn read(x: &Raw<'_>, i: usize, own: &mut Scratch, to: &mut [f32]) -> TaskResult {
    let bytes = row(x, i, own);
    on_vector!(x.dtype, T => {
        Ok(ops_simd::cast(Isa::best(), cast_slice::<u8, T>(bytes), to, Store::Cached)?)
    }, else Err(unsupported_dtype(x.dtype)))
}

/// Writes `Σ weights[i] · rows[i]` to the first row of `sums`, which has `PARTS` rows for partial sums.
fn weigh(weights: &[f32], rows: &[f32], n: usize, sums: &mut [f32]) {
    sums.fill(0.0);
    for (i, (weight, row)) in weights.iter().zip(rows.chunks_exact(n)).enumerate() {
        let part = &mut sums[i % PARTS * n..][..n];
        part.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
    }
    let (first, others) = sums.split_at_mut(n);
    for part in others.chunks_exact(n) {
        first.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
    }
}

impl Delta<'_> {
    /// All tokens of these heads, counted over the batch.
    fn heads(&self, heads: Range<usize>) -> TaskResult {
        let [t, d, dv] = self.dims;
        let (mut own, mut q, mut k) = (Scratch::default(), vec![0.0; d], vec![0.0; d]);
        let (mut v, mut sums, mut matrix) = (vec![0.0; dv], vec![0.0; PARTS * dv], vec![0.0; d * dv]);
        for head in heads {
            matrix.copy_from_slice(&self.states[head * d * dv..][..d * dv]);
            for at in head * t..(head + 1) * t {
                read(&self.q, at, &mut own, &mut q)?;
                read(&self.k, at, &mut own, &mut k)?;
                read(&self.v, at, &mut own, &mut v)?;
                let (kept, beta) = (self.decay[at].exp(), self.beta[at]);
                matrix.iter_mut().for_each(|s| *s *= kept);
                weigh(&k, &matrix, dv, &mut sums);
                v.iter_mut().zip(&sums).for_each(|(v, s)| *v = beta * (*v - s));
                for (k, row) in k.iter().zip(matrix.chunks_exact_mut(dv)) {
                    row.iter_mut().zip(&v).for_each(|(s, r)| *s += k * r);
                }
                weigh(&q, &matrix, dv, &mut sums);
                sums[..dv].iter_mut().for_each(|s| *s *= self.scale);
                self.o.write(at, &mut own, &mut |y| {
                    on_vector!(self.q.dtype, T => {
                        Ok(ops_simd::cast(Isa::best(), &sums[..dv], cast_slice_mut::<u8, T>(y), Store::Cached)?)
                    }, else Err(unsupported_dtype(self.q.dtype)))
                })?;
            }
            for (i, row) in matrix.chunks_exact(dv).enumerate() {
                self.state.write(head * d + i, &mut own, &mut |y| {
                    y.copy_from_slice(cast_slice(row));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

impl<T: Float> Kernel<GatedDeltaRule<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, GatedDeltaRule<T>, Host>) -> Result<()> {
        // Heads without features have no rows.
        let widths = [call.args().q.layout().last(), call.args().v.layout().last()];
        if T::DTYPE == DType::F64 || widths.contains(&0) {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let heads_first = |l: Layout| l.transpose(1, 2);
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (decay, beta) = (Raw::of(&a.decay), Raw::of(&a.beta));
        let &[b, t, h, d] = q.dims() else {
            return Err(ops_core::Error::shape("gated_delta_rule", "q", &q.layout, "[b, t, h, d]"));
        };
        let (lq, lk, lv) = (heads_first(q.layout)?, heads_first(k.layout)?, heads_first(v.layout)?);
        let (ld, lb) = (heads_first(decay.layout)?, heads_first(beta.layout)?);
        let (decay, beta) = (decay.with_layout(ld), beta.with_layout(lb));
        let dv = v.layout.last();
        let states = widened(&RawMut::of(&mut a.state).as_raw())?.into_owned();
        let o = RawMut::of(&mut a.o);
        let lo = heads_first(o.layout)?;
        let rule = Delta {
            q: q.with_layout(lq),
            k: k.with_layout(lk),
            v: v.with_layout(lv),
            decay: widened(&decay)?,
            beta: widened(&beta)?,
            scale: op.scale_for(d) as f32,
            dims: [t, d, dv],
            states,
            o: report("gated_delta_rule", Rows::new(o.with_layout(lo)))?,
            state: report("gated_delta_rule", Rows::new(RawMut::of(&mut a.state)))?,
        };
        let cost = t.saturating_mul(d).saturating_mul(dv) / 2;
        report("gated_delta_rule", threads::split(b * h, cost, &|heads| rule.heads(heads)))
    }
}
