//! Why results may differ: what candle does, what we do, and the rule in our contracts.
use crate::call::Call;

/// An intended difference.
pub(crate) struct Explained {
    pub(crate) ops: &'static [&'static str],
    /// In these types; empty for all.
    types: &'static [&'static str],
    /// Only if an operand contains NaN or an infinity.
    special: bool,
    /// Only if our result is that of f64, rounded once.
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
            "conv1d",
            "conv2d",
            "conv_transpose1d",
            "conv_transpose2d",
            "avg_pool2d",
            "batch_norm",
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
        ops: &["matmul"],
        types: &["f32", "f64"],
        theirs: "wrong from the second batch on where the first operand is transposed and the second broadcast over the batch",
        ours: "the product",
        contract: "rule 2",
        ..BASE
    },
    Explained {
        ops: &["conv1d"],
        types: &["f32", "f64"],
        theirs: "the strides of the kernel are ignored, and memory outside it may be read",
        ours: "the convolution",
        contract: "rule 2",
        ..BASE
    },
    Explained {
        ops: &["conv_transpose1d"],
        types: &["f32", "f64"],
        theirs: "wrong from the second image on, if there is no padding and no dilation",
        ours: "the convolution",
        contract: "rule 2",
        ..BASE
    },
    Explained {
        ops: &["upsample_bilinear2d"],
        theirs: "an operand that keeps its size is copied without its strides",
        ours: "interpolated",
        contract: "rule 2",
        ..BASE
    },
    Explained {
        ops: &["layer_norm"],
        types: &["f32"],
        theirs: "the variance is the mean of squares less the square of the mean, which cancels",
        ours: "the mean of squared differences",
        contract: "layer_norm",
        ..BASE
    },
    Explained {
        ops: &["cast to f16", "cast to bf16"],
        types: &["f64"],
        theirs: "rounded to f32 first, so that a tie may appear",
        ours: "rounded once, to the nearer number",
        contract: "cast",
        ..BASE
    },
];
