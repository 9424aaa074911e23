//! Attention over concatenated sequences.
use super::{Attention, is_grouped};
use crate::ops::extents;
use crate::ops::options::Options;
use crate::ops::registry::OptionValue;
use crate::{DType, Error, Float, Op, Operands, Result, Shape, Tolerance, operands};
use core::hash::Hasher;

/// [`Attention`] over `b` sequences of different lengths that lie side by side, without padding.
///
/// Operands:
/// - `q[n, h, d]`: the queries of all sequences, one sequence after another;
/// - `k[m, h_kv, d]` and `v[m, h_kv, dv]`: their keys and values, likewise; `h` is a multiple of `h_kv`;
/// - `cu_q[b + 1]` and `cu_k[b + 1]` of u32: sequence `i` has the queries `cu_q[i] .. cu_q[i + 1]` and the keys
///   `cu_k[i] .. cu_k[i + 1]`. Both begin with 0, never fall, and end with the number of rows, `n` and `m`;
/// - `sinks[h]` of `T` and `alibi[h]` of a float type, both optional, as for [`Attention`];
/// - `o[n, h, dv]`;
/// - `lse[n, h]` of f32, optional: the logarithm of each row's denominator.
///
/// Within a sequence of `t` queries and `s` keys this is [`Attention`]: query `r` is at position `s − t + r`, and scale, causality,
/// window, softcap, alibi and sinks mean the same. A sequence without keys gives zeros.
///
/// An entry of `cu_q` or `cu_k` that breaks these rules is [`Error::Index`], which the backend reports no
/// later than the next time the queue is waited for. The bound that the error names is 1 for the first entry,
/// and the number of rows plus 1 for every other one.
///
/// Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttentionVarlen<T> {
    /// The attention options within one sequence.
    pub attention: Attention<T>,
}
impl<T> AttentionVarlen<T> {
    /// Attention with these options within each sequence.
    pub fn of(attention: Attention<T>) -> Self {
        AttentionVarlen { attention }
    }
    pub(in crate::ops) fn typed<U>(self) -> AttentionVarlen<U> {
        AttentionVarlen::of(self.attention.typed())
    }
}
impl AttentionVarlen<()> {
    pub(in crate::ops) fn read<O: Options>(options: &O, _: ()) -> core::result::Result<Self, O::Error> {
        Ok(AttentionVarlen::of(Attention::read(options, ())?))
    }
}
pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod attention_varlen: AttentionVarlen<T: Float> {
        q: in T [n, h, d], k: in T [m, g, d], v: in T [m, g, dv], cu_q: in u32 [e], cu_k: in u32 [e], sinks: opt any [h],
        alibi: opt any(floats) [h], o: out T [n, h, dv], lse: opt_out f32 [n, h],
    });
}
impl<T: Float> Op for AttentionVarlen<T> {
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        self.attention.options()
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        self.attention.hash_options(state);
    }
    fn infer(&self, on: &args::attention_varlen::Shapes<'_>) -> Result<[Shape; 2]> {
        let op = self.name();
        let &[n, h, d] = on.q.dims() else { return Err(Error::shape(op, "q", on.q, "[n, h, d]")) };
        let (m, heads) = match *on.k.dims() {
            [m, kv, kd] if kd == d && is_grouped(h, kv) => (m, kv),
            _ => return Err(Error::shape(op, "k", on.k, format!("[m, a divisor of {h}, {d}]"))),
        };
        let dv = match *on.v.dims() {
            [rows, kv, dv] if [rows, kv] == [m, heads] => dv,
            _ => return Err(Error::shape(op, "v", on.v, format!("[{m}, {heads}, dv]"))),
        };
        match *on.cu_q.dims() {
            [entries] if entries > 0 => extents(op, "cu_k", on.cu_k, &[entries])?,
            _ => return Err(Error::shape(op, "cu_q", on.cu_q, "[b + 1]")),
        }
        self.attention.check_common(op, on.alibi.as_ref(), on.sinks.as_ref(), h)?;
        Ok([on.q.shape().with_last(dv)?, Shape::new(&[n, h])?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::attention(dtype)
    }
}
