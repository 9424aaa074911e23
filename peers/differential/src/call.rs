//! What is known of a call that both sides computed.

/// One call on both sides.
pub(crate) struct Call<'a> {
    pub(crate) op: &'a str,
    pub(crate) dtype: &'a str,
    /// Shapes and layouts.
    pub(crate) text: String,
    /// Whether an operand contains NaN or an infinity.
    pub(crate) special: bool,
    /// Relative error that rounding may cause on either side.
    pub(crate) rounding: f64,
    /// The largest magnitude of a term, for sums whose terms may cancel; 0 for other ops.
    pub(crate) terms: f64,
}
