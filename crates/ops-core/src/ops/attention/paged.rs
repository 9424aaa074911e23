//! Attention over keys and values in the blocks of a paged cache.
use super::{Attention, is_grouped};
use crate::ops::extents;
use crate::ops::options::Options;
use crate::ops::registry::OptionValue;
use crate::{DType, Error, Float, Op, Operands, Result, Shape, Tolerance, operands};
use core::hash::Hasher;

/// [`Attention`] over `b` sequences whose keys and values are in the blocks of a paged cache, which is read in place.
///
/// Operands:
/// - `q[n, h, d]`: the queries of all sequences, one sequence after another;
/// - `k[blocks, block, h_kv, d]` and `v[blocks, block, h_kv, dv]`: the cache, in blocks of `block` keys, 1 or more; `h` is a
///   multiple of `h_kv`;
/// - `block_table[b, width]` of an index type: key `j` of sequence `i` is row `j % block` of block `block_table[i, j / block]`.
///   Sequences may share blocks;
/// - `lengths[b]` of the type of `block_table`: the number of keys of each sequence, those of its own queries included;
/// - `cu_q[b + 1]` of u32: sequence `i` has the queries `cu_q[i] .. cu_q[i + 1]`. It begins with 0, never falls, and ends with `n`;
/// - `sinks[h]` of `T` and `alibi[h]` of a float type, both optional, as for [`Attention`];
/// - `o[n, h, dv]`;
/// - `lse[n, h]` of f32, optional: the logarithm of each row's denominator.
///
/// A sequence's queries are its last tokens: query `r` of `t` is at position `lengths[i] − t + r`. Otherwise
/// this is [`Attention`] within each sequence. A sequence of length 0 has no queries.
///
/// Table entries from `⌈lengths[i] / block⌉` on, blocks that no sequence uses, and the rows of a block after
/// a sequence's last key are never read: they may be out of range, or NaN. The following are
/// [`Error::Index`], which the backend reports no later than the next time the queue is waited for:
/// - an entry of `cu_q` that breaks the rules above (the bound is 1 for the first entry, and `n + 1` for others);
/// - a length below the number of the sequence's queries, or above the keys that the table can hold (bound `width · block + 1`);
/// - a used table entry that is not a block (bound `blocks`); the largest value of the index type never is.
///
/// Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttentionPaged<T> {
    /// The attention options within one sequence.
    pub attention: Attention<T>,
}
impl<T> AttentionPaged<T> {
    /// Attention with these options within each sequence.
    pub fn of(attention: Attention<T>) -> Self {
        AttentionPaged { attention }
    }
    pub(in crate::ops) fn typed<U>(self) -> AttentionPaged<U> {
        AttentionPaged::of(self.attention.typed())
    }
}
impl AttentionPaged<()> {
    pub(in crate::ops) fn read<O: Options>(options: &O, _: ()) -> core::result::Result<Self, O::Error> {
        Ok(AttentionPaged::of(Attention::read(options, ())?))
    }
}
pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod attention_paged: AttentionPaged<T: Float> {
        q: in T [n, h, d], k: in T [p, l, g, d], v: in T [p, l, g, dv], block_table: in any(indices) [b, c], lengths: in any [b],
        cu_q: in u32 [e], sinks: opt any [h], alibi: opt any(floats) [h], o: out T [n, h, dv], lse: opt_out f32 [n, h],
    });
}
impl<T: Float> Op for AttentionPaged<T> {
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        self.attention.options()
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        self.attention.hash_options(state);
    }
    fn infer(&self, on: &args::attention_paged::Shapes<'_>) -> Result<[Shape; 2]> {
        let op = self.name();
        let &[n, h, d] = on.q.dims() else { return Err(Error::shape(op, "q", on.q, "[n, h, d]")) };
        let (blocks, block, heads) = match *on.k.dims() {
            [blocks, block, kv, kd] if block > 0 && kd == d && is_grouped(h, kv) => (blocks, block, kv),
            _ => {
                let want = format!("[blocks, 1 or more, a divisor of {h}, {d}]");
                return Err(Error::shape(op, "k", on.k, want));
            }
        };
        let dv = match *on.v.dims() {
            [vblocks, vblock, kv, dv] if [vblocks, vblock, kv] == [blocks, block, heads] => dv,
            _ => return Err(Error::shape(op, "v", on.v, format!("[{blocks}, {block}, {heads}, dv]"))),
        };
        on.block_table.require(op, DType::is_index, "u8, u32, i32 or i64")?;
        let &[b, width] = on.block_table.dims() else {
            return Err(Error::shape(op, "block_table", on.block_table.layout, "[b, width]"));
        };
        if on.lengths.dtype != on.block_table.dtype {
            let (operand, got, want) = ("lengths", on.lengths.dtype, "the type of `block_table`");
            return Err(Error::DType { op, operand, got, want });
        }
        extents(op, "lengths", on.lengths.layout, &[b])?;
        extents(op, "cu_q", on.cu_q, &[b.saturating_add(1)])?;
        if width.checked_mul(block).is_none() {
            return Err(Error::TooLarge { dims: [width, block].into() });
        }
        self.attention.check_common(op, on.alibi.as_ref(), on.sinks.as_ref(), h)?;
        Ok([on.q.shape().with_last(dv)?, Shape::new(&[n, h])?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::attention(dtype)
    }
}
