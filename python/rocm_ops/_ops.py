"""Ops as functions. Written by python/write_ops.py from the registry: do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from ._native import call

__all__ = [
    "abs",
    "add",
    "add_rms_norm",
    "affine",
    "affine_inplace",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "attention_paged",
    "attention_varlen",
    "avg_pool2d",
    "batch_norm",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cache_write",
    "cast",
    "ceil",
    "clamp",
    "combine_experts",
    "conv1d",
    "conv1d_update",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "copy",
    "cos",
    "cumprod",
    "cumsum",
    "dequantize",
    "div",
    "elu",
    "eq",
    "erf",
    "exp",
    "expm1",
    "fill",
    "floor",
    "gated_delta_rule",
    "gated_rms_norm",
    "gather",
    "ge",
    "geglu",
    "gelu",
    "gelu_erf",
    "group_norm",
    "gt",
    "index_add",
    "index_select",
    "l2_norm",
    "layer_norm",
    "le",
    "linear",
    "linear_add",
    "linear_experts",
    "linear_experts_combine",
    "linear_experts_swiglu",
    "linear_swiglu",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mul",
    "ne",
    "neg",
    "pow",
    "powf",
    "prod",
    "qembedding",
    "qk_norm_rope",
    "qk_norm_rope_cache_write",
    "qlinear",
    "qlinear_experts",
    "quantize",
    "random_normal",
    "random_uniform",
    "recip",
    "relu",
    "rms_norm",
    "rms_norm_linear",
    "rms_norm_linear_rope_cache_write",
    "rms_norm_linear_swiglu",
    "rope",
    "rope_cache_write",
    "rope_i",
    "rope_i_inplace",
    "rope_inplace",
    "rope_qk_cache_write",
    "rope_thd",
    "rope_thd_inplace",
    "round",
    "router_topk",
    "sample",
    "scatter",
    "scatter_add",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "sort",
    "sqr",
    "sqrt",
    "sub",
    "sum",
    "swiglu",
    "swiglu_clamped",
    "tanh",
    "topk",
    "trunc",
    "upsample_bilinear2d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "where",
]


def abs(x: Any, *, out: Any = None) -> Any:
    """``|x|``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("abs", (x,), None, out)


def add(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a + b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("add", (a, b), None, out)


def add_rms_norm(x: Any, residual: Any, weight: Any, *, eps: float, out: Any = None) -> Any:
    """``sum = x + residual``, rounded to ``T``, and ``y = rms_norm(sum)``: the step between two layers.

    - ``x``: ``[.., n]``
    - ``residual``: ``[.., n]``
    - ``weight``: ``[n]``; f16, bf16, f32, f64
    - ``y``: ``[.., n]``; written
    - ``sum``: ``[.., n]``; written
    - ``eps``: Added to the mean square, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("add_rms_norm", (x, residual, weight), {"eps": eps}, out)


def affine(x: Any, *, mul: float, add: float, out: Any = None) -> Any:
    """``y = x · mul + add``. Integers are computed in f64 and cast back.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - ``mul``: The factor.
    - ``add``: The summand.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("affine", (x,), {"mul": mul, "add": add}, out)


def affine_inplace(x: Any, *, mul: float, add: float) -> Any:
    """``Affine`` in place: reads and writes ``x``.

    - ``x``: ``[..]``; read and written
    - ``mul``: The factor.
    - ``add``: The summand.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("affine_inplace", (x,), {"mul": mul, "add": add}, None)


def arange(y: Any, *, start: float = 0, step: float = 1) -> Any:
    """Numbers in equal steps: element ``i`` of ``y``, in row-major order, is ``start + i · step``.

    In floats, ``i`` is converted to f64, the product and the sum are rounded once to f64 (a fused multiply-add),
    and the result once to ``T``. Integers are computed in i64, which wraps, and so does the result in ``T``.
    Results are equal bit for bit on all backends.

    - ``y``: read and written
    - ``start``: The first number.
    - ``step``: The distance between two numbers.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("arange", (y,), {"start": start, "step": step}, None)


def argmax(x: Any, *, axis: int, out: Any = None) -> Any:
    """The index of the largest or smallest element along one axis. The first NaN wins; otherwise the lowest index
    among equal elements.

    - ``x``
    - ``y``: u32; written
    - ``axis``: The axis; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("argmax", (x,), {"axis": axis}, out)


def argmin(x: Any, *, axis: int, out: Any = None) -> Any:
    """The index of the largest or smallest element along one axis. The first NaN wins; otherwise the lowest index
    among equal elements.

    - ``x``
    - ``y``: u32; written
    - ``axis``: The axis; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("argmin", (x,), {"axis": axis}, out)


def argsort(x: Any, *, axis: int = -1, descending: bool = False, out: Any = None) -> Any:
    """The indices along an axis that ``Sort`` the elements.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; u32; written
    - ``axis``: The axis to sort along; negative counts from the end.
    - ``descending``: Whether the largest element comes first.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("argsort", (x,), {"axis": axis, "descending": descending}, out)


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    alibi: Any = None,
    sinks: Any = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    lse: bool = False,
    out: Any = None,
) -> Any:
    """``o = softmax(scale · q kᵀ) · v`` for each head, with optional softcap, bias and mask.
    - ``q[b, h, t, d]``;
    - ``k[b, h_kv, s, d]`` and ``v[b, h_kv, s, dv]``, where ``h`` is a multiple of ``h_kv``: query head ``i`` reads
      key head ``i / (h / h_kv)``;
    - ``mask[b, h, t, s]``, optional: of a float type, which is added to the scores, or of ``u8``, where non-zero
      means visible;
    - ``alibi[h]``, optional: slopes of a float type;
    - ``sinks[h]`` of ``T``, optional: one more score in the denominator of every row of a head, without a value. It
      is neither scaled nor capped;
    - ``o[b, h, t, dv]``;
    - ``lse[b, h, t]`` of f32, optional: the logarithm of each row's denominator, −∞ where there is neither a
      visible key nor a sink.

    Query ``i`` is at position ``p = s − t + i``. The steps, in order:
    1. score ``= scale · q·k``, where scale defaults to ``1/√d``
    2. softcap: ``c · tanh(score / c)``
    3. alibi: ``+ slope · (j − p)``
    4. mask
    5. visibility: causal ``j ≤ p``; window ``p − left ≤ j ≤ p + right``

    Then ``o = Σ e^score · v / (Σ e^score + e^sink)``. A row in which no key is visible gives zeros. A key that a
    query does not see, by causality, a window or a flag of 0, adds nothing to its row, even if the key or its value
    is NaN or infinite. Extra memory is proportional to ``t · d``.

    Vaswani et al., "Attention Is All You Need", 2017; Dao et al., "FlashAttention", 2022; Press et al., "Train
    Short, Test Long" (ALiBi), 2021; Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023.

    - ``q``: ``[b, h, t, d]``
    - ``k``: ``[b, g, s, d]``
    - ``v``: ``[b, g, s, dv]``
    - ``mask``: ``[b, h, t, s]``; optional
    - ``alibi``: ``[h]``; f16, bf16, f32, f64; optional
    - ``sinks``: ``[h]``; optional
    - ``o``: ``[b, h, t, dv]``; written
    - ``lse``: ``[b, h, t]``; f32; written; optional
    - ``scale``: Factor applied to the scores; ``None`` means ``1/√d``.
    - ``causal``: Whether a query sees only keys up to its own position.
    - ``window``: How many keys are visible before and after the query's position; ``None`` means no limit on that
      side.
    - ``softcap``: Softcap: bound on the scores, applied before alibi and mask.
    - element types: f16, bf16, f32, f64
    """
    return call("attention", (q, k, v, mask, alibi, sinks), {"scale": scale, "causal": causal, "window": window, "softcap": softcap}, out, ["lse"] if lse else None)


def attention_paged(
    q: Any,
    k: Any,
    v: Any,
    block_table: Any,
    lengths: Any,
    cu_q: Any,
    sinks: Any = None,
    alibi: Any = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    lse: bool = False,
    out: Any = None,
) -> Any:
    """``Attention`` over ``b`` sequences whose keys and values are in the blocks of a paged cache, which is read in
    place.
    - ``q[n, h, d]``: the queries of all sequences, one sequence after another;
    - ``k[blocks, block, h_kv, d]`` and ``v[blocks, block, h_kv, dv]``: the cache, in blocks of ``block`` keys, 1 or
      more; ``h`` is a multiple of ``h_kv``;
    - ``block_table[b, width]`` of an index type: key ``j`` of sequence ``i`` is row ``j % block`` of block
      ``block_table[i, j / block]``. Sequences may share blocks;
    - ``lengths[b]`` of the type of ``block_table``: the number of keys of each sequence, those of its own queries
      included;
    - ``cu_q[b + 1]`` of u32: sequence ``i`` has the queries ``cu_q[i] .. cu_q[i + 1]``. It begins with 0, never
      falls, and ends with ``n``;
    - ``sinks[h]`` of ``T`` and ``alibi[h]`` of a float type, both optional, as for ``Attention``;
    - ``o[n, h, dv]``;
    - ``lse[n, h]`` of f32, optional: the logarithm of each row's denominator.

    A sequence's queries are its last tokens: query ``r`` of ``t`` is at position ``lengths[i] − t + r``. Otherwise
    this is ``Attention`` within each sequence. A sequence of length 0 has no queries.

    Table entries from ``⌈lengths[i] / block⌉`` on, blocks that no sequence uses, and the rows of a block after a
    sequence's last key are never read: they may be out of range, or NaN. The following are ``Error::Index``, which
    the backend reports no later than the next time the queue is waited for:
    - an entry of ``cu_q`` that breaks the rules above (the bound is 1 for the first entry, and ``n + 1`` for
      others);
    - a length below the number of the sequence's queries, or above the keys that the table can hold (bound ``width
      · block + 1``);
    - a used table entry that is not a block (bound ``blocks``); the largest value of the index type never is.

    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.

    - ``q``: ``[n, h, d]``
    - ``k``: ``[p, l, g, d]``
    - ``v``: ``[p, l, g, dv]``
    - ``block_table``: ``[b, c]``; u8, u32, i32, i64
    - ``lengths``: ``[b]``
    - ``cu_q``: ``[e]``; u32
    - ``sinks``: ``[h]``; optional
    - ``alibi``: ``[h]``; f16, bf16, f32, f64; optional
    - ``o``: ``[n, h, dv]``; written
    - ``lse``: ``[n, h]``; f32; written; optional
    - ``scale``
    - ``causal``
    - ``window``
    - ``softcap``
    - element types: f16, bf16, f32, f64
    """
    return call("attention_paged", (q, k, v, block_table, lengths, cu_q, sinks, alibi), {"scale": scale, "causal": causal, "window": window, "softcap": softcap}, out, ["lse"] if lse else None)


def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_q: Any,
    cu_k: Any,
    sinks: Any = None,
    alibi: Any = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    lse: bool = False,
    out: Any = None,
) -> Any:
    """``Attention`` over ``b`` sequences of different lengths that lie side by side, without padding.
    - ``q[n, h, d]``: the queries of all sequences, one sequence after another;
    - ``k[m, h_kv, d]`` and ``v[m, h_kv, dv]``: their keys and values, likewise; ``h`` is a multiple of ``h_kv``;
    - ``cu_q[b + 1]`` and ``cu_k[b + 1]`` of u32: sequence ``i`` has the queries ``cu_q[i] .. cu_q[i + 1]`` and the
      keys ``cu_k[i] .. cu_k[i + 1]``. Both begin with 0, never fall, and end with the number of rows, ``n`` and
      ``m``;
    - ``sinks[h]`` of ``T`` and ``alibi[h]`` of a float type, both optional, as for ``Attention``;
    - ``o[n, h, dv]``;
    - ``lse[n, h]`` of f32, optional: the logarithm of each row's denominator.

    Within a sequence of ``t`` queries and ``s`` keys this is ``Attention``: query ``r`` is at position ``s − t +
    r``, and scale, causality, window, softcap, alibi and sinks mean the same. A sequence without keys gives zeros.

    An entry of ``cu_q`` or ``cu_k`` that breaks these rules is ``Error::Index``, which the backend reports no later
    than the next time the queue is waited for. The bound that the error names is 1 for the first entry, and the
    number of rows plus 1 for every other one.

    Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.

    - ``q``: ``[n, h, d]``
    - ``k``: ``[m, g, d]``
    - ``v``: ``[m, g, dv]``
    - ``cu_q``: ``[e]``; u32
    - ``cu_k``: ``[e]``; u32
    - ``sinks``: ``[h]``; optional
    - ``alibi``: ``[h]``; f16, bf16, f32, f64; optional
    - ``o``: ``[n, h, dv]``; written
    - ``lse``: ``[n, h]``; f32; written; optional
    - ``scale``
    - ``causal``
    - ``window``
    - ``softcap``
    - element types: f16, bf16, f32, f64
    """
    return call("attention_varlen", (q, k, v, cu_q, cu_k, sinks, alibi), {"scale": scale, "causal": causal, "window": window, "softcap": softcap}, out, ["lse"] if lse else None)


def avg_pool2d(
    x: Any,
    *,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = [1, 1],
    padding: int | Sequence[int] = [0, 0],
    out: Any = None,
) -> Any:
    """The sum divided by the number of elements in a whole window. Padding is 0, and counts.

    - ``x``
    - ``y``: written
    - ``kernel``
    - ``stride``
    - ``padding``
    - element types: f16, bf16, f32, f64
    """
    return call("avg_pool2d", (x,), {"kernel": kernel, "stride": stride, "padding": padding}, out)


def batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, *, eps: float, out: Any = None) -> Any:
    """``y = (x − mean) / sqrt(var + eps) · weight + bias`` per channel, with mean and variance as operands: the form
    for inference.

    - ``x``: ``[b, c, ..]``
    - ``weight``: ``[c]``; f16, bf16, f32, f64; optional
    - ``bias``: ``[c]``; f16, bf16, f32, f64; optional
    - ``mean``: ``[c]``; f16, bf16, f32, f64
    - ``var``: ``[c]``; f16, bf16, f32, f64
    - ``y``: ``[b, c, ..]``; written
    - ``eps``: Added to the variance, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("batch_norm", (x, weight, bias, mean, var), {"eps": eps}, out)


def bitwise_and(a: Any, b: Any, *, out: Any = None) -> Any:
    """The bits that both have.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("bitwise_and", (a, b), None, out)


def bitwise_not(x: Any, *, out: Any = None) -> Any:
    """``y = −x − 1``, element by element: every bit of an integer changed.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("bitwise_not", (x,), None, out)


def bitwise_or(a: Any, b: Any, *, out: Any = None) -> Any:
    """The bits that either has.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("bitwise_or", (a, b), None, out)


def bitwise_xor(a: Any, b: Any, *, out: Any = None) -> Any:
    """The bits that exactly one has.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("bitwise_xor", (a, b), None, out)


def cache_write(x: Any, slots: Any, cache: Any) -> Any:
    """Writes rows to slots of a cache: ``cache[slots[i], ..] = x[i, ..]``, converted to the cache's type.
    - ``x[n, ..]``;
    - ``slots[n]`` of an index type: the row of the cache for each row of ``x``. The largest value of the type skips
      the row; any other slot that the cache does not have is ``Error::Index``. Slots that are not skipped must be
      distinct, or it is unspecified which row is kept;
    - ``cache[slots, ..]`` of ``T`` or f8e4m3, read and written: rows that no slot names are unchanged.

    - ``x``: ``[n, h, d]``
    - ``slots``: ``[n]``; u8, u32, i32, i64
    - ``cache``: ``[c, h, d]``; read and written
    - element types: f16, bf16, f32, f64
    """
    return call("cache_write", (x, slots, cache), None, None)


def cast(x: Any, *, to: str, out: Any = None) -> Any:
    """Converts ``x`` to another element type by the rules of ``Scalar``: float to integer truncates and saturates,
    integer to integer wraps, and everything else rounds once, to nearest even.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("cast", (x,), {"to": to}, out)


def ceil(x: Any, *, out: Any = None) -> Any:
    """The smallest integer not below ``x``.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("ceil", (x,), None, out)


def clamp(x: Any, *, min: float, max: float, out: Any = None) -> Any:
    """``min(max(x, min), max)``; NaN in ``x`` or a bound gives NaN.

    - ``x``
    - ``y``: written
    - ``min``: The lower bound, a value of the op's type.
    - ``max``: The upper bound, a value of the op's type. It wins if it is below the lower one.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("clamp", (x,), {"min": min, "max": max}, out)


def combine_experts(x: Any, weights: Any, *, out: Any = None) -> Any:
    """``y[i] = Σ_j weights[i, j] · x[i, j]``: the weighted sum of each token's expert results.

    - ``x``: ``[n, k, d]``
    - ``weights``: ``[n, k]``; f32
    - ``y``: ``[n, d]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("combine_experts", (x, weights), None, out)


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = [1],
    padding: int | Sequence[int] = [0],
    dilation: int | Sequence[int] = [1],
    groups: int = 1,
    out: Any = None,
) -> Any:
    """``conv1d``

    - ``x``
    - ``weight``
    - ``bias``: optional
    - ``y``: written
    - ``stride``
    - ``padding``
    - ``dilation``
    - ``groups``: The number of groups of channels.
    - element types: f16, bf16, f32, f64
    """
    return call("conv1d", (x, weight, bias), {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}, out)


def conv1d_update(
    x: Any,
    weight: Any,
    bias: Any,
    state: Any,
    *,
    activation: Literal["none", "silu"] = "none",
    out: Any = None,
) -> Any:
    """A causal convolution of each channel over time that continues an earlier one: ``y[i] = activation(Σ weight[j] ·
    line[i + j] + bias)``, where ``line`` is the state followed by ``x``.
    - ``x[b, t, c]`` and ``weight[c, w]``, whose last column multiplies the newest input;
    - ``bias[c]`` of any float type, optional;
    - ``state[b, c, w − 1]``: the inputs before ``x``, oldest first. It becomes the last ``w − 1`` inputs;
    - ``y`` like ``x``.

    Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.

    - ``x``: ``[b, t, c]``
    - ``weight``: ``[c, w]``
    - ``bias``: ``[c]``; f16, bf16, f32, f64; optional
    - ``state``: ``[b, c, s]``; read and written
    - ``y``: ``[b, t, c]``; written
    - ``activation``: The activation after the sums.
    - element types: f16, bf16, f32, f64
    """
    return call("conv1d_update", (x, weight, bias, state), {"activation": activation}, out)


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = [1, 1],
    padding: int | Sequence[int] = [0, 0],
    dilation: int | Sequence[int] = [1, 1],
    groups: int = 1,
    out: Any = None,
) -> Any:
    """``conv2d``

    - ``x``
    - ``weight``
    - ``bias``: optional
    - ``y``: written
    - ``stride``
    - ``padding``
    - ``dilation``
    - ``groups``: The number of groups of channels.
    - element types: f16, bf16, f32, f64
    """
    return call("conv2d", (x, weight, bias), {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}, out)


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = [1],
    padding: int | Sequence[int] = [0],
    dilation: int | Sequence[int] = [1],
    output_padding: int | Sequence[int] = [0],
    groups: int = 1,
    out: Any = None,
) -> Any:
    """``conv_transpose1d``

    - ``x``
    - ``weight``
    - ``bias``: optional
    - ``y``: written
    - ``stride``
    - ``padding``
    - ``dilation``
    - ``output_padding``
    - ``groups``: The number of groups of channels.
    - element types: f16, bf16, f32, f64
    """
    return call("conv_transpose1d", (x, weight, bias), {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding, "groups": groups}, out)


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int | Sequence[int] = [1, 1],
    padding: int | Sequence[int] = [0, 0],
    dilation: int | Sequence[int] = [1, 1],
    output_padding: int | Sequence[int] = [0, 0],
    groups: int = 1,
    out: Any = None,
) -> Any:
    """``conv_transpose2d``

    - ``x``
    - ``weight``
    - ``bias``: optional
    - ``y``: written
    - ``stride``
    - ``padding``
    - ``dilation``
    - ``output_padding``
    - ``groups``: The number of groups of channels.
    - element types: f16, bf16, f32, f64
    """
    return call("conv_transpose2d", (x, weight, bias), {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding, "groups": groups}, out)


def copy(x: Any, *, out: Any = None) -> Any:
    """Copies ``x`` to ``y``. Both may have any strides.

    - ``x``
    - ``y``: written
    - element types: all
    """
    return call("copy", (x,), None, out)


def cos(x: Any, *, out: Any = None) -> Any:
    """Cosine; ``x`` in radians.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("cos", (x,), None, out)


def cumprod(x: Any, *, axis: int, out: Any = None) -> Any:
    """Their product.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``axis``: The axis to go along; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("cumprod", (x,), {"axis": axis}, out)


def cumsum(x: Any, *, axis: int, out: Any = None) -> Any:
    """Their sum.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``axis``: The axis to go along; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("cumsum", (x,), {"axis": axis}, out)


def dequantize(x: Any, *, out: Any = None) -> Any:
    """Expands the blocks of ``x`` to f32.

    - ``x``: ``[.., k]``; blocks
    - ``y``: ``[.., k]``; f32; written
    - element types: f32
    """
    return call("dequantize", (x,), None, out)


def div(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a / b``; integer division truncates, and division by zero gives 0.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("div", (a, b), None, out)


def elu(x: Any, *, alpha: float, out: Any = None) -> Any:
    """``x`` if ``x > 0``, else ``alpha · (eˣ − 1)``. Clevert et al., 2015.

    - ``x``
    - ``y``: written
    - ``alpha``: The factor, and minus the limit at −∞.
    - element types: f16, bf16, f32, f64
    """
    return call("elu", (x,), {"alpha": alpha}, out)


def eq(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a = b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("eq", (a, b), None, out)


def erf(x: Any, *, out: Any = None) -> Any:
    """The error function.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("erf", (x,), None, out)


def exp(x: Any, *, out: Any = None) -> Any:
    """``eˣ``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("exp", (x,), None, out)


def expm1(x: Any, *, out: Any = None) -> Any:
    """``eˣ − 1``, precise near 0.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("expm1", (x,), None, out)


def fill(y: Any, *, value: float) -> Any:
    """Sets every element of ``y`` to one value.

    - ``y``: read and written
    - ``value``: The value to write.
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("fill", (y,), {"value": value}, None)


def floor(x: Any, *, out: Any = None) -> Any:
    """The largest integer not above ``x``.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("floor", (x,), None, out)


def gated_delta_rule(
    q: Any,
    k: Any,
    v: Any,
    decay: Any,
    beta: Any,
    state: Any,
    *,
    scale: float | None = None,
    out: Any = None,
) -> Any:
    """The gated delta rule. Each head has a matrix that maps keys to values; every token makes it decay and corrects
    it.

    For each token, ``S ← e^decay · S``; ``r = beta · (v − kᵀ S)``; ``S ← S + k rᵀ``; ``o = scale · qᵀ S``.

    Operands (GPUs have kernels for f16, bf16 and f32):
    - ``q`` and ``k[b, t, h, d]``, ``v[b, t, h, dv]``;
    - ``decay`` and ``beta[b, t, h]`` of f32;
    - ``state[b, h, d, dv]`` of f32: the matrices before the first token, then those after the last;
    - ``o[b, t, h, dv]``.

    Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.

    - ``q``: ``[b, t, h, d]``
    - ``k``: ``[b, t, h, d]``
    - ``v``: ``[b, t, h, dv]``
    - ``decay``: ``[b, t, h]``; f32
    - ``beta``: ``[b, t, h]``; f32
    - ``state``: ``[b, h, d, dv]``; f32; read and written
    - ``o``: ``[b, t, h, dv]``; written
    - ``scale``: Factor applied to the outputs; ``None`` means ``1/√d``.
    - element types: f16, bf16, f32, f64
    """
    return call("gated_delta_rule", (q, k, v, decay, beta, state), {"scale": scale}, out)


def gated_rms_norm(x: Any, gate: Any, weight: Any, *, eps: float, out: Any = None) -> Any:
    """``y = rms_norm(x) · weight · silu(gate)``: ``RmsNorm`` with a gate per element.

    - ``x``: ``[.., n]``
    - ``gate``: ``[.., n]``
    - ``weight``: ``[n]``; f16, bf16, f32, f64
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the mean square, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("gated_rms_norm", (x, gate, weight), {"eps": eps}, out)


def gather(x: Any, ids: Any, *, axis: int = 0, out: Any = None) -> Any:
    """``y[i, j, ..] = x[ids[i, j, ..], j, ..]`` for axis 0, and likewise for other axes.

    - ``x``
    - ``ids``: u8, u32, i32, i64
    - ``y``: written
    - ``axis``: The axis that the indices count along; negative counts from the end.
    - element types: all
    """
    return call("gather", (x, ids), {"axis": axis}, out)


def ge(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a ≥ b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("ge", (a, b), None, out)


def geglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """``y = f(gate) · up``, element by element.

    Operands of different extents are broadcast together.

    - ``gate``: ``[..]``
    - ``up``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("geglu", (gate, up), None, out)


def gelu(x: Any, *, out: Any = None) -> Any:
    """``x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))``. Hendrycks and Gimpel, 2016.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("gelu", (x,), None, out)


def gelu_erf(x: Any, *, out: Any = None) -> Any:
    """``x/2 · (1 + erf(x/√2))``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("gelu_erf", (x,), None, out)


def group_norm(x: Any, weight: Any = None, bias: Any = None, *, num_groups: int, eps: float, out: Any = None) -> Any:
    """Layer norm over groups of channels. Each run of ``c / num_groups`` channels of ``x[b, c, ..]`` is normalised
    together with all inner axes, then scaled and shifted per channel.

    Wu and He, "Group Normalization", 2018.

    - ``x``: ``[b, c, ..]``
    - ``weight``: ``[c]``; f16, bf16, f32, f64; optional
    - ``bias``: ``[c]``; f16, bf16, f32, f64; optional
    - ``y``: ``[b, c, ..]``; written
    - ``num_groups``: Number of groups; must divide the number of channels.
    - ``eps``: Added to the variance, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("group_norm", (x, weight, bias), {"num_groups": num_groups, "eps": eps}, out)


def gt(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a > b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("gt", (a, b), None, out)


def index_add(dst: Any, ids: Any, src: Any, *, axis: int = 0) -> Any:
    """``dst[.., ids[i], ..] += src[.., i, ..]`` along an axis. Sums follow the rules of ``ScatterAdd``.

    - ``dst``: read and written
    - ``ids``: u8, u32, i32, i64
    - ``src``
    - ``axis``: The axis that the indices count along; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("index_add", (dst, ids, src), {"axis": axis}, None)


def index_select(x: Any, ids: Any, *, axis: int = 0, out: Any = None) -> Any:
    """``y[.., i, ..] = x[.., ids[i], ..]`` along an axis. Axis 0 gives an embedding lookup.

    - ``x``
    - ``ids``: u8, u32, i32, i64
    - ``y``: written
    - ``axis``: The axis to select along; negative counts from the end.
    - element types: all
    """
    return call("index_select", (x, ids), {"axis": axis}, out)


def l2_norm(x: Any, *, eps: float, out: Any = None) -> Any:
    """``y = x / sqrt(Σx² + eps)``, with the sum over the last axis.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the sum of squares, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("l2_norm", (x,), {"eps": eps}, out)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float, out: Any = None) -> Any:
    """``y = (x − mean) / sqrt(var + eps) · weight + bias`` over the last axis, with the biased variance.

    Ba, Kiros and Hinton, "Layer Normalization", 2016.

    - ``x``: ``[.., n]``
    - ``weight``: ``[n]``; f16, bf16, f32, f64; optional
    - ``bias``: ``[n]``; f16, bf16, f32, f64; optional
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the variance, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("layer_norm", (x, weight, bias), {"eps": eps}, out)


def le(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a ≤ b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("le", (a, b), None, out)


def linear(x: Any, weight: Any, bias: Any = None, *, out: Any = None) -> Any:
    """``y[.., j] = Σ_k x[.., k] · weight[j, k] + bias[j]``.

    With a quantized weight, a backend may round the activations to 8 bits per block of 32; the tolerance allows for
    it. Files and policies call such a product ``qlinear``.

    - ``x``: ``[.., k]``
    - ``weight``: ``[n, k]``
    - ``bias``: ``[n]``; f16, bf16, f32, f64; optional
    - ``y``: ``[.., n]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("linear", (x, weight, bias), None, out)


def linear_add(x: Any, weight: Any, residual: Any, *, out: Any = None) -> Any:
    """A product added to the residual stream of a decoder: ``y = x · weightᵀ + residual``, rounded once.

    - ``x``: ``[.., k]``
    - ``weight``: ``[n, k]``
    - ``residual``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("linear_add", (x, weight, residual), None, out)


def linear_experts(x: Any, weight: Any, ids: Any, bias: Any = None, *, out: Any = None) -> Any:
    """``y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]``: a linear layer for each expert of each
    token.

    The largest value of the index type means "no expert" and gives zeros, without a bias. Any other id from ``e``
    on is ``Error::Index``, which the backend reports no later than the next time the queue is waited for. Quantized
    weights are treated as in ``Linear``; files and policies then call the op ``qlinear_experts``.

    - ``x``: ``[n, m, d]``
    - ``weight``: ``[e, o, d]``
    - ``ids``: ``[n, k]``; u8, u32, i32, i64
    - ``bias``: ``[e, o]``; optional
    - ``y``: ``[n, k, o]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("linear_experts", (x, weight, ids, bias), None, out)


def linear_experts_combine(x: Any, weight: Any, ids: Any, bias: Any, weights: Any, *, out: Any = None) -> Any:
    """The products of the experts of each token, times their weights and added: ``y[i] = Σ_j weights[i, j] ·
    (weight[ids[i, j]] · x[i, j] + bias[ids[i, j]])``, rounded once.

    As parts: ``LinearExperts`` and ``CombineExperts`` in ``T::Acc``, then a cast.

    - ``x``: ``[n, k, d]``
    - ``weight``: ``[e, o, d]``
    - ``ids``: ``[n, k]``; u8, u32, i32, i64
    - ``bias``: ``[e, o]``; optional
    - ``weights``: ``[n, k]``; f32
    - ``y``: ``[n, o]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("linear_experts_combine", (x, weight, ids, bias, weights), None, out)


def linear_experts_swiglu(
    x: Any,
    gate: Any,
    up: Any,
    ids: Any,
    gate_bias: Any = None,
    up_bias: Any = None,
    *,
    alpha: float = 1.0,
    limit: float | None = None,
    out: Any = None,
) -> Any:
    """The gated half of the feed-forward blocks of each token's experts: ``y[i, j] = silu(g) · u``, with ``g =
    gate[ids[i, j]] · x[i, min(j, m − 1)] + gate_bias[ids[i, j]]`` and ``u`` likewise. The products are not rounded
    to ``T``.

    With a ``limit``, it is the clamped unit of ``SwigluClamped``: ``g`` is at most ``limit``, ``u`` from ``−limit``
    to ``limit``, and ``y[i, j] = g · sigmoid(alpha · g) · (u + 1)``.

    As parts: two ``LinearExperts`` and a ``Glu`` or ``SwigluClamped`` in ``T::Acc``, then a cast.

    - ``x``: ``[n, m, d]``
    - ``gate``: ``[e, o, d]``
    - ``up``: ``[e, o, d]``
    - ``ids``: ``[n, k]``; u8, u32, i32, i64
    - ``gate_bias``: ``[e, o]``; optional
    - ``up_bias``: ``[e, o]``; optional
    - ``y``: ``[n, k, o]``; written
    - ``alpha``: Multiplies the gate inside the sigmoid, if there is a limit.
    - ``limit``: The largest gate, and the largest magnitude of ``up``.
    - element types: f16, bf16, f32, f64
    """
    return call("linear_experts_swiglu", (x, gate, up, ids, gate_bias, up_bias), {"alpha": alpha, "limit": limit}, out)


def linear_swiglu(x: Any, gate: Any, up: Any, *, out: Any = None) -> Any:
    """The gated half of a feed-forward block: ``y = silu(x · gateᵀ) · (x · upᵀ)``. The products are not rounded to
    ``T``.

    As parts: two ``Linear`` and a ``Glu`` in ``T::Acc``, then a cast. Shazeer, "GLU Variants Improve Transformer",
    2020.

    - ``x``: ``[.., k]``
    - ``gate``: ``[n, k]``
    - ``up``: ``[n, k]``
    - ``y``: ``[.., n]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("linear_swiglu", (x, gate, up), None, out)


def log(x: Any, *, out: Any = None) -> Any:
    """Natural logarithm.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("log", (x,), None, out)


def log1p(x: Any, *, out: Any = None) -> Any:
    """``ln(1 + x)``, precise near 0.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("log1p", (x,), None, out)


def log_softmax(x: Any, *, axis: int = -1, out: Any = None) -> Any:
    """``y = exp(x − max) / Σ exp(x − max)`` along an axis, or the logarithm of that.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``axis``: The axis to normalise over; negative counts from the end.
    - element types: f16, bf16, f32, f64
    """
    return call("log_softmax", (x,), {"axis": axis}, out)


def logical_and(a: Any, b: Any, *, out: Any = None) -> Any:
    """Both are true.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("logical_and", (a, b), None, out)


def logical_not(x: Any, *, out: Any = None) -> Any:
    """``y = 1`` where ``x`` is 0, otherwise 0. −0 is 0, and NaN is not.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("logical_not", (x,), None, out)


def logical_or(a: Any, b: Any, *, out: Any = None) -> Any:
    """Either is true.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("logical_or", (a, b), None, out)


def logical_xor(a: Any, b: Any, *, out: Any = None) -> Any:
    """Exactly one is true.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("logical_xor", (a, b), None, out)


def lt(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a < b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("lt", (a, b), None, out)


def matmul(a: Any, b: Any, *, out: Any = None) -> Any:
    """``c[.., i, j] = Σ_k a[.., i, k] · b[.., k, j]``.

    - ``a``: ``[.., m, k]``
    - ``b``: ``[.., k, n]``
    - ``c``: ``[.., m, n]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("matmul", (a, b), None, out)


def max(x: Any, *, axes: int | Sequence[int] | None = None, keep_dims: bool = False, out: Any = None) -> Any:
    """The largest element; NaN if any is NaN.

    - ``x``
    - ``y``: written
    - ``axes``
    - ``keep_dims``
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("max", (x,), {"axes": axes, "keep_dims": keep_dims}, out)


def max_pool2d(
    x: Any,
    *,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] = [1, 1],
    padding: int | Sequence[int] = [0, 0],
    out: Any = None,
) -> Any:
    """The largest; NaN if any is NaN. Padding is −∞.

    - ``x``
    - ``y``: written
    - ``kernel``
    - ``stride``
    - ``padding``
    - element types: f16, bf16, f32, f64
    """
    return call("max_pool2d", (x,), {"kernel": kernel, "stride": stride, "padding": padding}, out)


def maximum(a: Any, b: Any, *, out: Any = None) -> Any:
    """The larger; NaN if either operand is NaN.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("maximum", (a, b), None, out)


def mean(x: Any, *, axes: int | Sequence[int] | None = None, keep_dims: bool = False, out: Any = None) -> Any:
    """``Σ x / n``; NaN for no elements. Floats only.

    - ``x``
    - ``y``: written
    - ``axes``
    - ``keep_dims``
    - element types: f16, bf16, f32, f64
    """
    return call("mean", (x,), {"axes": axes, "keep_dims": keep_dims}, out)


def min(x: Any, *, axes: int | Sequence[int] | None = None, keep_dims: bool = False, out: Any = None) -> Any:
    """The smallest element; NaN if any is NaN.

    - ``x``
    - ``y``: written
    - ``axes``
    - ``keep_dims``
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("min", (x,), {"axes": axes, "keep_dims": keep_dims}, out)


def minimum(a: Any, b: Any, *, out: Any = None) -> Any:
    """The smaller; NaN if either operand is NaN.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("minimum", (a, b), None, out)


def mul(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a · b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("mul", (a, b), None, out)


def ne(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a ≠ b``; true if either is NaN.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; u8; written
    - element types: f8e4m3, i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("ne", (a, b), None, out)


def neg(x: Any, *, out: Any = None) -> Any:
    """``−x``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("neg", (x,), None, out)


def pow(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a`` to the power of ``b``, with the special values of C's ``pow``. For integers, the power wraps, and a
    negative exponent gives the truncated quotient ``1 / a^−b``: 0 unless ``a`` is 1 or −1.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("pow", (a, b), None, out)


def powf(x: Any, *, exponent: float, out: Any = None) -> Any:
    """``x`` to the power of ``exponent``, with the special values of C's ``pow``.

    - ``x``
    - ``y``: written
    - ``exponent``: The exponent.
    - element types: f16, bf16, f32, f64
    """
    return call("powf", (x,), {"exponent": exponent}, out)


def prod(x: Any, *, axes: int | Sequence[int] | None = None, keep_dims: bool = False, out: Any = None) -> Any:
    """``Π x``; 1 for no elements. Integers wrap.

    - ``x``
    - ``y``: written
    - ``axes``
    - ``keep_dims``
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("prod", (x,), {"axes": axes, "keep_dims": keep_dims}, out)


def qembedding(table: Any, ids: Any, *, dtype: str = "f32", out: Any = None) -> Any:
    """``y[i] = table[ids[i]]``, converted to ``T``: an embedding lookup.

    - ``table``: ``[r, k]``; blocks
    - ``ids``: ``[n]``; u8, u32, i32, i64
    - ``y``: ``[n, k]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("qembedding", (table, ids), {"dtype": dtype}, out)


def qk_norm_rope(
    x: Any,
    weight: Any,
    cos: Any,
    sin: Any,
    positions: Any = None,
    *,
    eps: float,
    order: Literal["half", "interleaved"] = "half",
    out: Any = None,
) -> Any:
    """``y = rope_thd(rms_norm(x) · weight)``: norms each head, then rotates it. Nothing is rounded in between.
    - ``x[b, t, h, d]`` with even ``d``;
    - ``weight[d]`` of any float type;
    - ``cos`` and ``sin`` of any float type: tables ``[t', r/2]``, or ``[b, t', r/2]`` with one table per batch
      entry, where ``r ≤ d``. The first ``r`` features of a head are rotated, the others only normed;
    - ``positions[b, t]`` or ``[1, t]`` of an index type, optional: the table's row for each token; without it, row
      ``t`` for token ``t``. Any position outside the table is ``Error::Index``, as for ``Rope``;
    - ``y`` like ``x``.

    Henry et al., "Query-Key Normalization for Transformers", 2020.

    - ``x``: ``[b, t, h, d]``
    - ``weight``: ``[d]``; f16, bf16, f32, f64
    - ``cos``: ``[t, d/2]``; f16, bf16, f32, f64
    - ``sin``: ``[t, d/2]``
    - ``positions``: ``[b, t]``; u8, u32, i32, i64; optional
    - ``y``: ``[b, t, h, d]``; written
    - ``eps``: Added to the mean square, inside the root.
    - ``order``: How features pair up.
    - element types: f16, bf16, f32, f64
    """
    return call("qk_norm_rope", (x, weight, cos, sin, positions), {"eps": eps, "order": order}, out)


def qk_norm_rope_cache_write(
    k: Any,
    v: Any,
    weight: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    slots: Any,
    k_cache: Any,
    v_cache: Any,
    *,
    eps: float,
    order: Literal["half", "interleaved"] = "half",
) -> Any:
    """Norms keys, rotates them, and writes keys and values to their slots in the caches: ``QkNormRope`` of ``k``, then
    ``CacheWrite`` of both. Nothing is rounded in between.

    - ``k``: ``[n, h, d]``
    - ``v``: ``[n, h, e]``
    - ``weight``: ``[d]``; f16, bf16, f32, f64
    - ``cos``: ``[t, d/2]``; f16, bf16, f32, f64
    - ``sin``: ``[t, d/2]``
    - ``positions``: ``[n]``; u8, u32, i32, i64
    - ``slots``: ``[n]``; u8, u32, i32, i64
    - ``k_cache``: ``[c, h, d]``; read and written
    - ``v_cache``: ``[c, h, e]``; read and written
    - ``eps``: Added to the mean square, inside the root.
    - ``order``: How features pair up.
    - element types: f16, bf16, f32, f64
    """
    return call("qk_norm_rope_cache_write", (k, v, weight, cos, sin, positions, slots, k_cache, v_cache), {"eps": eps, "order": order}, None)


def qlinear(x: Any, weight: Any, bias: Any = None, *, out: Any = None) -> Any:
    """``y[.., j] = Σ_k x[.., k] · weight[j, k] + bias[j]``.

    With a quantized weight, a backend may round the activations to 8 bits per block of 32; the tolerance allows for
    it. Files and policies call such a product ``qlinear``.

    - ``x``: ``[.., k]``
    - ``weight``: ``[n, k]``; blocks
    - ``bias``: ``[n]``; f16, bf16, f32, f64; optional
    - ``y``: ``[.., n]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("qlinear", (x, weight, bias), None, out)


def qlinear_experts(x: Any, weight: Any, ids: Any, bias: Any = None, *, out: Any = None) -> Any:
    """``y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]``: a linear layer for each expert of each
    token.

    The largest value of the index type means "no expert" and gives zeros, without a bias. Any other id from ``e``
    on is ``Error::Index``, which the backend reports no later than the next time the queue is waited for. Quantized
    weights are treated as in ``Linear``; files and policies then call the op ``qlinear_experts``.

    - ``x``: ``[n, m, d]``
    - ``weight``: ``[e, o, d]``; blocks
    - ``ids``: ``[n, k]``; u8, u32, i32, i64
    - ``bias``: ``[e, o]``; optional
    - ``y``: ``[n, k, o]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("qlinear_experts", (x, weight, ids, bias), None, out)


def quantize(x: Any, *, to: str, out: Any = None) -> Any:
    """Quantizes each row of ``x`` to the nearest blocks, in the format of ``y``.

    - ``x``: ``[.., k]``; f32
    - ``y``: ``[.., k]``; blocks; written
    - element types: f32
    """
    return call("quantize", (x,), {"to": to}, out)


def random_normal(y: Any, *, seed: int = 0, offset: int = 0) -> Any:
    """Random numbers of a distribution: ``random_uniform`` or ``random_normal``.

    Block ``b`` is the output of Philox-4×32-10: four words of 32 bits, for the key ``seed`` of 64 bits and the
    counter of 128 bits whose low half is ``b`` and whose high half is 1. Elements 0 to 3 of ``y``, in row-major
    order, come from block ``offset``, elements 4 to 7 from the next, and so on. In f64, words 0 and 1 form one word
    of 64 bits, and words 2 and 3 another, the first of them being the lower half. So a block yields two elements.

    **Uniform,** in [0, 1): an element is the highest ``p`` bits of its word, times 2⁻ᵖ. Here ``p`` is the precision
    of ``T``: 8 bits for bf16, 11 for f16, 24 for f32, 53 for f64. Results are equal bit for bit on all backends.

    **Normal,** of mean 0 and variance 1: consecutive words give ``u`` and ``v``, uniform with 24 bits (53 in f64).
    They yield ``r · cos(2πv)`` and ``r · sin(2πv)``, with ``r = √(−2 ln(1 − u))``. Magnitudes are at most 5.8 (8.6
    in f64). Backends may differ within the op's tolerance.

    An element depends only on its index, not on the size of ``y``. To continue after ``n`` numbers, add ``⌈n / 4⌉``
    to the offset, or ``⌈n / 2⌉`` in f64. The upper half of the counter of ``Sample`` is 0, so both ops may use the
    same seed.

    Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Normal numbers: Box and Muller,
    "A note on the generation of random normal deviates", 1958.

    - ``y``: read and written
    - ``seed``: The key of the random numbers.
    - ``offset``: The first block.
    - element types: f16, bf16, f32, f64
    """
    return call("random_normal", (y,), {"seed": seed, "offset": offset}, None)


def random_uniform(y: Any, *, seed: int = 0, offset: int = 0) -> Any:
    """Random numbers of a distribution: ``random_uniform`` or ``random_normal``.

    Block ``b`` is the output of Philox-4×32-10: four words of 32 bits, for the key ``seed`` of 64 bits and the
    counter of 128 bits whose low half is ``b`` and whose high half is 1. Elements 0 to 3 of ``y``, in row-major
    order, come from block ``offset``, elements 4 to 7 from the next, and so on. In f64, words 0 and 1 form one word
    of 64 bits, and words 2 and 3 another, the first of them being the lower half. So a block yields two elements.

    **Uniform,** in [0, 1): an element is the highest ``p`` bits of its word, times 2⁻ᵖ. Here ``p`` is the precision
    of ``T``: 8 bits for bf16, 11 for f16, 24 for f32, 53 for f64. Results are equal bit for bit on all backends.

    **Normal,** of mean 0 and variance 1: consecutive words give ``u`` and ``v``, uniform with 24 bits (53 in f64).
    They yield ``r · cos(2πv)`` and ``r · sin(2πv)``, with ``r = √(−2 ln(1 − u))``. Magnitudes are at most 5.8 (8.6
    in f64). Backends may differ within the op's tolerance.

    An element depends only on its index, not on the size of ``y``. To continue after ``n`` numbers, add ``⌈n / 4⌉``
    to the offset, or ``⌈n / 2⌉`` in f64. The upper half of the counter of ``Sample`` is 0, so both ops may use the
    same seed.

    Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Normal numbers: Box and Muller,
    "A note on the generation of random normal deviates", 1958.

    - ``y``: read and written
    - ``seed``: The key of the random numbers.
    - ``offset``: The first block.
    - element types: f16, bf16, f32, f64
    """
    return call("random_uniform", (y,), {"seed": seed, "offset": offset}, None)


def recip(x: Any, *, out: Any = None) -> Any:
    """``1 / x``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("recip", (x,), None, out)


def relu(x: Any, *, out: Any = None) -> Any:
    """``max(x, 0)``; NaN stays NaN.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("relu", (x,), None, out)


def rms_norm(x: Any, weight: Any, *, eps: float, out: Any = None) -> Any:
    """``y = x / sqrt(mean(x²) + eps) · weight``, with the mean over the last axis.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    - ``x``: ``[.., n]``
    - ``weight``: ``[n]``; f16, bf16, f32, f64
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the mean square, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("rms_norm", (x, weight), {"eps": eps}, out)


def rms_norm_linear(x: Any, norm: Any, weight: Any, bias: Any = None, *, eps: float, out: Any = None) -> Any:
    """A product of normed rows: ``y = rms_norm(x) · weightᵀ + bias``. The normed rows are not rounded to ``T``.

    - ``x``: ``[.., k]``
    - ``norm``: ``[k]``; f16, bf16, f32, f64
    - ``weight``: ``[n, k]``
    - ``bias``: ``[n]``; f16, bf16, f32, f64; optional
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the mean square, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("rms_norm_linear", (x, norm, weight, bias), {"eps": eps}, out)


def rms_norm_linear_rope_cache_write(
    x: Any,
    norm: Any,
    weight: Any,
    bias: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    slots: Any,
    k_cache: Any,
    v_cache: Any,
    *,
    eps: float,
    order: Literal["half", "interleaved"] = "half",
    out: Any = None,
) -> Any:
    """All that a decoder layer does before attention: the product of its normed rows with the weights of queries, keys
    and values, and ``RopeQkCacheWrite`` of the result, without norms of heads.
    - ``x[n, m]``, the weight ``norm[m]`` of its norm, ``weight[o, m]`` and ``bias[o]``: as for ``RmsNormLinear``.
      The rows of the weight are the heads of queries, then of keys, then of values, so ``o = (g + h) d + h e``;
    - the others as for ``RopeQkCacheWrite``; ``y[n, g, d]`` are the rotated queries.

    As parts: ``RmsNormLinear``, then ``RopeQkCacheWrite``. A backend may round the product to ``T``.

    - ``x``: ``[n, m]``
    - ``norm``: ``[m]``; f16, bf16, f32, f64
    - ``weight``: ``[o, m]``
    - ``bias``: ``[o]``; f16, bf16, f32, f64; optional
    - ``cos``: ``[t, d/2]``; f16, bf16, f32, f64
    - ``sin``: ``[t, d/2]``
    - ``positions``: ``[n]``; u8, u32, i32, i64
    - ``slots``: ``[n]``; u8, u32, i32, i64
    - ``k_cache``: ``[c, h, d]``; read and written
    - ``v_cache``: ``[c, h, e]``; read and written
    - ``y``: ``[n, g, d]``; written
    - ``eps``: Added to the mean square of a row of ``x``, inside the root.
    - ``order``: How features pair up.
    - element types: f16, bf16, f32, f64
    """
    return call("rms_norm_linear_rope_cache_write", (x, norm, weight, bias, cos, sin, positions, slots, k_cache, v_cache), {"eps": eps, "order": order}, out)


def rms_norm_linear_swiglu(x: Any, norm: Any, gate: Any, up: Any, *, eps: float, out: Any = None) -> Any:
    """The gated half of a feed-forward block, of normed rows: ``LinearSwiglu`` of ``rms_norm(x)``, which is not
    rounded to ``T``.

    - ``x``: ``[.., k]``
    - ``norm``: ``[k]``; f16, bf16, f32, f64
    - ``gate``: ``[n, k]``
    - ``up``: ``[n, k]``
    - ``y``: ``[.., n]``; written
    - ``eps``: Added to the mean square, inside the root.
    - element types: f16, bf16, f32, f64
    """
    return call("rms_norm_linear_swiglu", (x, norm, gate, up), {"eps": eps}, out)


def rope(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0, out: Any = None) -> Any:
    """Rotates pairs of features by an angle that grows with the position: ``(y₁, y₂) = (x₁ cos − x₂ sin, x₁ sin + x₂
    cos)``.
    - ``x[b, h, t, d]``, or ``x[b, t, h, d]`` for ``RopeForm::HalfThd``, with even ``d``;
    - ``cos`` and ``sin`` of any float type: tables ``[t', r/2]``, or ``[b, t', r/2]`` with one table per batch,
      where ``t' ≥ start + t``. The first ``r ≤ d`` features are rotated, the others copied;
    - ``positions[b, t]`` or ``[1, t]`` of an index type, optional: the table's row for each token, instead of the
      rows from ``start`` on. Any position outside the table, including the index type's largest value, is
      ``Error::Index``, which the backend reports no later than the next time the queue is waited for;
    - ``y`` like ``x``.

    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    - ``x``
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``y``: written
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope", (x, cos, sin, positions), {"start": start}, out)


def rope_cache_write(
    k: Any,
    v: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    slots: Any,
    k_cache: Any,
    v_cache: Any,
    *,
    order: Literal["half", "interleaved"] = "half",
) -> Any:
    """Rotates keys and writes keys and values to their slots in the caches: ``rope_thd`` of ``k``, then ``CacheWrite``
    of both. Nothing is rounded in between.
    - ``k[n, h, d]`` with even ``d``, and ``v[n, h, dv]``;
    - ``cos`` and ``sin`` of any float type: tables ``[t', r/2]``, where ``r ≤ d``. The first ``r`` features of a
      head are rotated;
    - ``positions[n]`` of an index type: the table's row for each token. A position outside the table is
      ``Error::Index``, even if the token's slot is skipped;
    - ``slots[n]``, ``k_cache[slots, h, d]`` and ``v_cache[slots, h, dv]``: as for ``CacheWrite``; the caches have
      one type.

    - ``k``: ``[n, h, d]``
    - ``v``: ``[n, h, e]``
    - ``cos``: ``[t, d/2]``; f16, bf16, f32, f64
    - ``sin``: ``[t, d/2]``
    - ``positions``: ``[n]``; u8, u32, i32, i64
    - ``slots``: ``[n]``; u8, u32, i32, i64
    - ``k_cache``: ``[c, h, d]``; read and written
    - ``v_cache``: ``[c, h, e]``; read and written
    - ``order``: How features pair up.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_cache_write", (k, v, cos, sin, positions, slots, k_cache, v_cache), {"order": order}, None)


def rope_i(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0, out: Any = None) -> Any:
    """Rotates pairs of features by an angle that grows with the position: ``(y₁, y₂) = (x₁ cos − x₂ sin, x₁ sin + x₂
    cos)``.
    - ``x[b, h, t, d]``, or ``x[b, t, h, d]`` for ``RopeForm::HalfThd``, with even ``d``;
    - ``cos`` and ``sin`` of any float type: tables ``[t', r/2]``, or ``[b, t', r/2]`` with one table per batch,
      where ``t' ≥ start + t``. The first ``r ≤ d`` features are rotated, the others copied;
    - ``positions[b, t]`` or ``[1, t]`` of an index type, optional: the table's row for each token, instead of the
      rows from ``start`` on. Any position outside the table, including the index type's largest value, is
      ``Error::Index``, which the backend reports no later than the next time the queue is waited for;
    - ``y`` like ``x``.

    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    - ``x``
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``y``: written
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_i", (x, cos, sin, positions), {"start": start}, out)


def rope_i_inplace(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0) -> Any:
    """``Rope`` in place: reads and writes ``x``.

    - ``x``: read and written
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_i_inplace", (x, cos, sin, positions), {"start": start}, None)


def rope_inplace(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0) -> Any:
    """``Rope`` in place: reads and writes ``x``.

    - ``x``: read and written
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_inplace", (x, cos, sin, positions), {"start": start}, None)


def rope_qk_cache_write(
    q: Any,
    k: Any,
    v: Any,
    q_norm: Any,
    k_norm: Any,
    cos: Any,
    sin: Any,
    positions: Any,
    slots: Any,
    k_cache: Any,
    v_cache: Any,
    *,
    eps: float = 0.0,
    order: Literal["half", "interleaved"] = "half",
    out: Any = None,
) -> Any:
    """All that a decoder layer does between its projections and attention. Norms the heads of queries and keys if
    their norm is given, rotates both, and writes keys and values to their slots in the caches. Nothing is rounded
    in between.
    - ``q[n, g, d]``; ``q_norm[d]`` and ``k_norm[d]``, optional: the norms' weights, of any float type;
    - the others as for ``RopeCacheWrite``;
    - ``y`` like ``q``: the rotated queries, also of tokens whose slot is skipped.

    As parts: ``QkNormRope`` or ``Rope`` of ``q``; ``QkNormRopeCacheWrite`` or ``RopeCacheWrite``.

    - ``q``: ``[n, g, d]``
    - ``k``: ``[n, h, d]``
    - ``v``: ``[n, h, e]``
    - ``q_norm``: ``[d]``; f16, bf16, f32, f64; optional
    - ``k_norm``: ``[d]``; f16, bf16, f32, f64; optional
    - ``cos``: ``[t, d/2]``; f16, bf16, f32, f64
    - ``sin``: ``[t, d/2]``
    - ``positions``: ``[n]``; u8, u32, i32, i64
    - ``slots``: ``[n]``; u8, u32, i32, i64
    - ``k_cache``: ``[c, h, d]``; read and written
    - ``v_cache``: ``[c, h, e]``; read and written
    - ``y``: ``[n, g, d]``; written
    - ``eps``: Added to the mean square, inside the root, if there are norms.
    - ``order``: How features pair up.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_qk_cache_write", (q, k, v, q_norm, k_norm, cos, sin, positions, slots, k_cache, v_cache), {"eps": eps, "order": order}, out)


def rope_thd(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0, out: Any = None) -> Any:
    """Rotates pairs of features by an angle that grows with the position: ``(y₁, y₂) = (x₁ cos − x₂ sin, x₁ sin + x₂
    cos)``.
    - ``x[b, h, t, d]``, or ``x[b, t, h, d]`` for ``RopeForm::HalfThd``, with even ``d``;
    - ``cos`` and ``sin`` of any float type: tables ``[t', r/2]``, or ``[b, t', r/2]`` with one table per batch,
      where ``t' ≥ start + t``. The first ``r ≤ d`` features are rotated, the others copied;
    - ``positions[b, t]`` or ``[1, t]`` of an index type, optional: the table's row for each token, instead of the
      rows from ``start`` on. Any position outside the table, including the index type's largest value, is
      ``Error::Index``, which the backend reports no later than the next time the queue is waited for;
    - ``y`` like ``x``.

    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    - ``x``
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``y``: written
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_thd", (x, cos, sin, positions), {"start": start}, out)


def rope_thd_inplace(x: Any, cos: Any, sin: Any, positions: Any = None, *, start: int = 0) -> Any:
    """``Rope`` in place: reads and writes ``x``.

    - ``x``: read and written
    - ``cos``: f16, bf16, f32, f64
    - ``sin``
    - ``positions``: u8, u32, i32, i64; optional
    - ``start``: The row of the tables for the first token.
    - element types: f16, bf16, f32, f64
    """
    return call("rope_thd_inplace", (x, cos, sin, positions), {"start": start}, None)


def round(x: Any, *, out: Any = None) -> Any:
    """The nearest integer; ties round away from zero.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("round", (x,), None, out)


def router_topk(
    logits: Any,
    bias: Any = None,
    *,
    k: int,
    scoring: Literal["softmax", "sigmoid"] = "softmax",
    order: Literal["before", "after"] = "before",
    renormalize: bool = False,
    scale: float = 1.0,
    groups: int = 1,
    groups_kept: int = 1,
    group_score: Literal["top2", "max"] = "top2",
    out: Any = None,
) -> Any:
    """The top ``k`` experts of each token and their weights.

    With several groups, only the experts of the ``groups_kept`` best groups are candidates, the lower group first
    among equals. Shazeer et al., "Outrageously Large Neural Networks", 2017; groups: DeepSeek-AI, "DeepSeek-V3
    Technical Report", 2024.

    - ``logits``: ``[n, e]``
    - ``bias``: ``[e]``; optional
    - ``weights``: ``[n, k]``; f32; written
    - ``ids``: ``[n, k]``; u32; written
    - ``k``: The number of experts per token.
    - ``scoring``: How logits become scores.
    - ``order``: Whether experts are scored before or after they are chosen.
    - ``renormalize``: Divides the weights by their sum (plus 1e-20).
    - ``scale``: Multiplies the final weights.
    - ``groups``: The number of groups of consecutive experts; must divide the number of experts.
    - ``groups_kept``: The number of groups kept.
    - ``group_score``: How a group is scored.
    - element types: f16, bf16, f32, f64
    """
    return call("router_topk", (logits, bias), {"k": k, "scoring": scoring, "order": order, "renormalize": renormalize, "scale": scale, "groups": groups, "groups_kept": groups_kept, "group_score": group_score}, out)


def sample(
    logits: Any,
    counter: Any,
    *,
    temperature: float,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    out: Any = None,
) -> Any:
    """Draws an id from each row of logits.

    With temperature 0, the result is the id of the largest logit: of the first NaN if there is one, otherwise the
    lowest id among equals. Otherwise, with ids in descending order of logits, the lower id first among equals:
    1. The first ``top_k`` ids are kept, or all if there are fewer. Their probabilities are softmax(logits /
       temperature).
    2. Of these, the shortest prefix whose probabilities sum to at least ``top_p`` is kept. It has at least one id.
    3. ``u = (word + ½) · 2⁻³²``, where ``word`` is the first word of Philox-4×32-10 with the key ``seed`` and the
       counter ``(counter, 0)``, low words first. The result is the first id whose cumulative probability, relative
       to the sum over all kept ids, exceeds ``u``.

    Ids whose logit is −∞ are never drawn. If the largest logit is +∞, one of those equal to it is drawn. If there
    is a NaN, or if all logits are −∞, the result is the same as with temperature 0.

    **Reproducibility.** The result depends only on the row, its counter and the options, not on other rows or the
    number of threads. Reference, Cpu and Rocm give the same ids for the same logits, because they sum probabilities
    as integers (``Masses``). These are within 10⁻⁵ of the exact cumulative probabilities. Where ``u`` or ``top_p``
    is that close to one of them, a backend that computes otherwise may take the next id.

    Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Top-p: Holtzman et al., "The
    curious case of neural text degeneration", 2020.

    - ``logits``: ``[n, v]``
    - ``counter``: ``[n]``; i64
    - ``ids``: ``[n]``; u32; written
    - ``temperature``: Divides the logits; 0 takes the largest.
    - ``top_k``: Keeps this many ids; at least 1.
    - ``top_p``: Keeps the first ids whose probabilities sum to this, from 0 to 1.
    - ``seed``: The key of the random numbers.
    - element types: f16, bf16, f32, f64
    """
    return call("sample", (logits, counter), {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}, out)


def scatter(dst: Any, ids: Any, src: Any, *, axis: int = 0) -> Any:
    """``dst[ids[i, j, ..], j, ..] = src[i, j, ..]`` for axis 0, and likewise for other axes. If several values go to
    one element, the last in row-major order wins.

    - ``dst``: read and written
    - ``ids``: u8, u32, i32, i64
    - ``src``
    - ``axis``: The axis that the indices count along; negative counts from the end.
    - element types: all
    """
    return call("scatter", (dst, ids, src), {"axis": axis}, None)


def scatter_add(dst: Any, ids: Any, src: Any, *, axis: int = 0) -> Any:
    """``dst[ids[i, j, ..], j, ..] += src[i, j, ..]`` for axis 0, and likewise for other axes. Floats accumulate in f32
    or wider, and each sum of 16-bit floats is rounded once. Integers wrap. Results do not depend on the number of
    threads.

    - ``dst``: read and written
    - ``ids``: u8, u32, i32, i64
    - ``src``
    - ``axis``: The axis that the indices count along; negative counts from the end.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("scatter_add", (dst, ids, src), {"axis": axis}, None)


def shift_left(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a · 2ᵇ``, wrapping. 0 if ``b`` is negative or at least the number of bits of the type.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("shift_left", (a, b), None, out)


def shift_right(a: Any, b: Any, *, out: Any = None) -> Any:
    """``⌊a / 2ᵇ⌋``. If ``b`` is negative or at least the number of bits of the type: 0, or −1 where ``a`` is negative.

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32
    """
    return call("shift_right", (a, b), None, out)


def sigmoid(x: Any, *, out: Any = None) -> Any:
    """``1 / (1 + e⁻ˣ)``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("sigmoid", (x,), None, out)


def sign(x: Any, *, out: Any = None) -> Any:
    """−1, 0 or 1, the sign of ``x``.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("sign", (x,), None, out)


def silu(x: Any, *, out: Any = None) -> Any:
    """``x / (1 + e⁻ˣ)``, which is NaN at −∞. Elfwing et al., 2017.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("silu", (x,), None, out)


def sin(x: Any, *, out: Any = None) -> Any:
    """Sine; ``x`` in radians.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("sin", (x,), None, out)


def softmax(x: Any, *, axis: int = -1, out: Any = None) -> Any:
    """``y = exp(x − max) / Σ exp(x − max)`` along an axis, or the logarithm of that.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``axis``: The axis to normalise over; negative counts from the end.
    - element types: f16, bf16, f32, f64
    """
    return call("softmax", (x,), {"axis": axis}, out)


def softplus(x: Any, *, out: Any = None) -> Any:
    """``ln(1 + eˣ)``, which does not overflow.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("softplus", (x,), None, out)


def sort(x: Any, *, axis: int = -1, descending: bool = False, out: Any = None) -> Any:
    """Sorts along an axis. The sort is stable. NaN is the largest: last in ascending and first in descending order.

    - ``x``: ``[.., n]``
    - ``y``: ``[.., n]``; written
    - ``axis``: The axis to sort along; negative counts from the end.
    - ``descending``: Whether the largest element comes first.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("sort", (x,), {"axis": axis, "descending": descending}, out)


def sqr(x: Any, *, out: Any = None) -> Any:
    """``x²``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("sqr", (x,), None, out)


def sqrt(x: Any, *, out: Any = None) -> Any:
    """``√x``

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("sqrt", (x,), None, out)


def sub(a: Any, b: Any, *, out: Any = None) -> Any:
    """``a − b``

    Operands of different extents are broadcast together.

    - ``a``: ``[..]``
    - ``b``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("sub", (a, b), None, out)


def sum(x: Any, *, axes: int | Sequence[int] | None = None, keep_dims: bool = False, out: Any = None) -> Any:
    """``Σ x``; 0 for no elements. Integers wrap.

    - ``x``
    - ``y``: written
    - ``axes``
    - ``keep_dims``
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("sum", (x,), {"axes": axes, "keep_dims": keep_dims}, out)


def swiglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """``y = f(gate) · up``, element by element.

    Operands of different extents are broadcast together.

    - ``gate``: ``[..]``
    - ``up``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("swiglu", (gate, up), None, out)


def swiglu_clamped(gate: Any, up: Any, *, alpha: float, limit: float, out: Any = None) -> Any:
    """``y = g · sigmoid(alpha · g) · (u + 1)``, with ``g = min(gate, limit)`` and ``u = clamp(up, −limit, limit)``,
    element by element.

    Operands of different extents are broadcast together.

    - ``gate``: ``[..]``
    - ``up``: ``[..]``
    - ``y``: ``[..]``; written
    - ``alpha``: Multiplies the gate inside the sigmoid.
    - ``limit``: The largest gate, and the largest magnitude of ``up``.
    - element types: f16, bf16, f32, f64
    """
    return call("swiglu_clamped", (gate, up), {"alpha": alpha, "limit": limit}, out)


def tanh(x: Any, *, out: Any = None) -> Any:
    """Hyperbolic tangent.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("tanh", (x,), None, out)


def topk(x: Any, *, k: int, out: Any = None) -> Any:
    """The ``k`` largest elements of each row and their indices, in descending order. NaN is the largest; among equal
    elements the lower index comes first.

    - ``x``: ``[.., n]``
    - ``values``: ``[.., k]``; written
    - ``indices``: ``[.., k]``; u32; written
    - ``k``: The number of elements; at most ``n``.
    - element types: i8, i16, i32, i64, u8, u32, f16, bf16, f32, f64
    """
    return call("topk", (x,), {"k": k}, out)


def trunc(x: Any, *, out: Any = None) -> Any:
    """The integer without the fraction: rounds towards zero.

    - ``x``: ``[..]``
    - ``y``: ``[..]``; written
    - element types: f16, bf16, f32, f64
    """
    return call("trunc", (x,), None, out)


def upsample_bilinear2d(x: Any, *, size: int | Sequence[int], align_corners: bool = False, out: Any = None) -> Any:
    """Along the last two axes: interpolates linearly between the two nearest elements of each axis.

    - ``x``
    - ``y``: written
    - ``size``: The new extents; the second is unused along one axis.
    - ``align_corners``: Whether the first and last elements of an axis keep their positions: element i is at i ·
      (in − 1) / (out − 1). Otherwise elements are areas: element i is at (i + ½) · in / out − ½, or at 0 if that is
      negative.
    - element types: f16, bf16, f32, f64
    """
    return call("upsample_bilinear2d", (x,), {"size": size, "align_corners": align_corners}, out)


def upsample_nearest1d(x: Any, *, size: int | Sequence[int], out: Any = None) -> Any:
    """Along the last axis: element ⌊i · in / out⌋.

    - ``x``
    - ``y``: written
    - ``size``: The new extents; the second is unused along one axis.
    - element types: f16, bf16, f32, f64
    """
    return call("upsample_nearest1d", (x,), {"size": size}, out)


def upsample_nearest2d(x: Any, *, size: int | Sequence[int], out: Any = None) -> Any:
    """The same along the last two axes.

    - ``x``
    - ``y``: written
    - ``size``: The new extents; the second is unused along one axis.
    - element types: f16, bf16, f32, f64
    """
    return call("upsample_nearest2d", (x,), {"size": size}, out)


def where(cond: Any, on_true: Any, on_false: Any, *, out: Any = None) -> Any:
    """``y = on_true`` where ``cond`` is non-zero, otherwise ``on_false``.

    Operands of different extents are broadcast together.

    - ``cond``
    - ``on_true``
    - ``on_false``
    - ``y``: written
    - element types: all
    """
    return call("where", (cond, on_true, on_false), None, out)
