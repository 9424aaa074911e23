//! Operands of attention that belong together.
use crate::{AnyRef, Space};

/// The optional operands of [`Attention`](super::Attention).
#[derive(Clone, Copy, Debug)]
pub struct AttentionExtras<'a, S: Space> {
    pub(super) mask: Option<AnyRef<'a, S>>,
    pub(super) alibi: Option<AnyRef<'a, S>>,
    pub(super) sinks: Option<AnyRef<'a, S>>,
}
impl<S: Space> Default for AttentionExtras<'_, S> {
    fn default() -> Self {
        AttentionExtras { mask: None, alibi: None, sinks: None }
    }
}
impl<'a, S: Space> AttentionExtras<'a, S> {
    /// No mask, no alibi, no sinks.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a mask that broadcasts to `[b, h, t, s]`. Floats are added to the scores; a `u8` of 0 hides the key.
    pub fn mask(self, mask: impl Into<AnyRef<'a, S>>) -> Self {
        AttentionExtras { mask: Some(mask.into()), ..self }
    }
    /// Adds alibi slopes, one per head.
    pub fn alibi(self, slopes: impl Into<AnyRef<'a, S>>) -> Self {
        AttentionExtras { alibi: Some(slopes.into()), ..self }
    }
    /// Adds sinks, one per head, in the type of `q`: scores without a value, which take a share of every row's weight.
    pub fn sinks(self, sinks: impl Into<AnyRef<'a, S>>) -> Self {
        AttentionExtras { sinks: Some(sinks.into()), ..self }
    }
}

/// Where the sequences of [`attention_varlen`](super::RaggedAttentionMethods::attention_varlen) start.
///
/// Each is a tensor of `u32` with one element more than there are sequences. Sequence `i` has the rows from element `i` to
/// element `i + 1`.
#[derive(Clone, Copy, Debug)]
pub struct Starts<Q, K = Q> {
    /// Of the queries: the operand `cu_q`.
    pub queries: Q,
    /// Of the keys and values: the operand `cu_k`.
    pub keys: K,
}

/// Where the keys of the sequences of [`attention_paged`](super::RaggedAttentionMethods::attention_paged) are in the cache.
#[derive(Clone, Copy, Debug)]
pub struct Paging<B, L = B, Q = B> {
    /// The blocks of each sequence, `[sequences, blocks]`, of any index type.
    pub block_table: B,
    /// The number of keys of each sequence, of any index type.
    pub lengths: L,
    /// Where the queries of each sequence start, as in [`Starts`].
    pub cu_q: Q,
}
