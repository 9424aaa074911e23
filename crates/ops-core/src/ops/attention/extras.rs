//! Optional operands of attention.
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
    pub fn mask(self, mask: AnyRef<'a, S>) -> Self {
        AttentionExtras { mask: Some(mask), ..self }
    }
    /// Adds alibi slopes, one per head.
    pub fn alibi(self, slopes: AnyRef<'a, S>) -> Self {
        AttentionExtras { alibi: Some(slopes), ..self }
    }
    /// Adds sinks, one per head, in the type of `q`: scores without a value, which take a share of every row's weight.
    pub fn sinks(self, sinks: AnyRef<'a, S>) -> Self {
        AttentionExtras { sinks: Some(sinks), ..self }
    }
}
