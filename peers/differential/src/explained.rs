//! Why results may differ: what candle does, what we do, and the rule of our contracts.
use crate::report::Call;

/// A difference that is meant.
pub(crate) struct Explained {
    pub(crate) ops: &'static [&'static str],
    /// In these types; empty for all.
    types: &'static [&'static str],
    /// Only where an operand holds NaN or an infinity.
    special: bool,
    /// Only where our result is that of f64, rounded once.
    needs_truth: bool,
    pub(crate) theirs: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) contract: &'static str,
}

impl Explained {
    pub(crate) fn covers(&self, call: &Call<'_>, ours_right: bool) -> bool {
        self.ops.contains(&call.op)
            && (self.types.is_empty() || self.types.contains(&call.dtype))
            && (!self.special || call.special)
            && (!self.needs_truth || ours_right)
    }
}

const HALVES: &[&str] = &["f16", "bf16"];

const BASE: Explained =
    Explained { ops: &[], types: &[], special: false, needs_truth: true, theirs: "", ours: "", contract: "" };

pub(crate) const EXPLAINED: &[Explained] = &[
    Explained {
        ops: &["maximum", "minimum", "relu", "clamp", "max", "min"],
        special: true,
        theirs: "NaN is kept or lost by its position",
        ours: "NaN propagates",
        contract: "rule 3",
        ..BASE
    },
    Explained {
        ops: &["argmax", "argmin"],
        special: true,
        theirs: "NaN after the first element is skipped",
        ours: "the first NaN",
        contract: "rule 3",
        ..BASE
    },
    Explained {
        ops: &["sort", "argsort"],
        special: true,
        theirs: "a row with NaN stays unsorted",
        ours: "NaN is the largest",
        contract: "sort",
        ..BASE
    },
    Explained {
        ops: &["gelu", "gelu_erf", "silu", "sigmoid", "swiglu", "elu", "powf", "affine", "tanh"],
        types: HALVES,
        theirs: "every step, or a parameter, is rounded to 16 bits",
        ours: "computed in f32 and rounded once",
        contract: "rule 1",
        ..BASE
    },
    Explained {
        ops: &[
            "sum",
            "mean",
            "cumsum",
            "softmax",
            "log_softmax",
            "rms_norm",
            "layer_norm",
            "scatter_add",
            "index_add",
            "rope",
            "rope_i",
            "rope_thd",
            "matmul",
        ],
        types: HALVES,
        theirs: "sums or factors are rounded to 16 bits",
        ours: "added in f32 or wider and rounded once",
        contract: "rule 1",
        ..BASE
    },
    Explained {
        ops: &["pow"],
        theirs: "exp(b · ln a): NaN for negative bases, and large powers lose digits",
        ours: "the power of f64, rounded once",
        contract: "pow",
        ..BASE
    },
    Explained {
        ops: &["gelu", "gelu_erf", "silu", "swiglu"],
        special: true,
        theirs: "-∞ · 0 gives NaN",
        ours: "the limit",
        contract: "activations",
        ..BASE
    },
];
