"""Every op on floats gives what the reference gives, for random extents, values, types and strides."""

import re

import numpy as np
import pytest
import rocm_ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

OPS = {op["name"]: op for op in rocm_ops.ops()}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
INDICES = [np.uint8, np.uint32, np.int32, np.int64]

#: Largest normalised mean squared error between two results that are each rounded.
LIMITS = {"f16": 1e-5, "f32": 1e-9, "f64": 1e-18}


class Draw:
    """Random operands of one type."""

    def __init__(self, seed, dtype):
        self.rng, self.name, self.dtype = np.random.default_rng(seed), dtype, FLOATS[dtype]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def dims(self, low=1, high=4):
        return [self.int(1, 7) for _ in range(self.int(low, high))]

    def choose(self, *items):
        return items[self.int(0, len(items) - 1)]

    def tensor(self, *dims, dtype=None):
        """Random numbers, sometimes behind other strides."""
        values = self.rng.standard_normal(dims).astype(dtype or self.dtype)
        kind = self.int(0, 3) if dims else 0
        if kind == 1:
            wide = np.zeros((*dims[:-1], 2 * dims[-1]), values.dtype)[..., ::2]
            wide[...] = values
            return wide
        if kind == 2:
            return np.ascontiguousarray(values[::-1])[::-1]
        return values

    def other(self, *dims):
        """For operands of any float type."""
        return self.tensor(*dims, dtype=self.choose(*FLOATS.values()))

    def ids(self, high, *dims):
        return self.rng.integers(0, high, dims).astype(self.choose(*INDICES))

    def maybe(self, tensor):
        return tensor if self.int(0, 1) else None


def declared(op, d):
    """Operands by their declared extents."""
    sizes, outer, operands = {}, d.dims(0, 2), []
    for operand in op["operands"]:
        if operand["role"] == "out":
            continue
        dims = []
        for word in operand["extents"].split(", "):
            if word == "..":
                dims += outer
            elif word == "d/2":
                dims.append(size(sizes, "d", d) // 2)
            elif word.isdigit():
                dims.append(int(word))
            else:
                dims.append(size(sizes, word, d))
        kind = operand["kind"]
        if kind == "runs":
            tensor = d.tensor(*dims)
        elif isinstance(kind, list):
            tensor = d.other(*dims)
        else:
            tensor = d.tensor(*dims, dtype=FLOATS[kind])
        operands.append(d.maybe(tensor) if operand["optional"] else tensor)
    return operands


def size(sizes, word, d):
    # Pairs of features need an even extent.
    return sizes.setdefault(word, 2 * d.int(1, 5) if word == "d" else d.int(1, 9))


def axis_of(x, d):
    return d.int(-x.ndim, x.ndim - 1)


def reduce(d):
    x = d.tensor(*d.dims(1, 4))
    axes = d.choose(None, axis_of(x, d), tuple(d.rng.permutation(x.ndim)[: d.int(1, x.ndim)].tolist()))
    return [x], {"axes": axes, "keep_dims": bool(d.int(0, 1))}


def along_axis(d):
    x = d.tensor(*d.dims(1, 4))
    return [x], {"axis": axis_of(x, d)}


def rows(d):
    return [d.tensor(*d.dims(1, 3))], {}


def gather(d):
    x = d.tensor(*d.dims(1, 3))
    axis = axis_of(x, d)
    dims = [d.int(1, extent) for extent in x.shape]
    return [x, d.ids(x.shape[axis], *dims)], {"axis": axis}


def scatter(d):
    (dst, ids), options = gather(d)
    return [np.array(dst), ids, d.tensor(*ids.shape)], options


def index_select(d):
    x = d.tensor(*d.dims(1, 3))
    axis = axis_of(x, d)
    return [x, d.ids(x.shape[axis], d.int(1, 5))], {"axis": axis}


def index_add(d):
    (dst, ids), options = index_select(d)
    dims = list(dst.shape)
    dims[options["axis"]] = len(ids)
    return [np.array(dst), ids, d.tensor(*dims)], options


def rope(d, thd=False, inplace=False):
    b, h, t, pairs, start = d.int(1, 3), d.int(1, 3), d.int(1, 4), d.int(1, 4), d.int(0, 2)
    x = d.tensor(*([b, t, h, 2 * pairs] if thd else [b, h, t, 2 * pairs]))
    turned, table = d.int(1, pairs), d.choose(*FLOATS.values())
    dims = [start + t + d.int(0, 2), turned]
    positions = d.maybe(d.ids(dims[0], d.choose(1, b), t))
    options = {} if positions is not None else {"start": start}
    x = np.array(x) if inplace else x
    return [x, d.tensor(*dims, dtype=table), d.tensor(*dims, dtype=table), positions], options


def tables(d, operands):
    """Tables of one type; both have the first one's."""
    operands[1] = operands[1].astype(operands[0].dtype)
    return operands


def qk_norm_rope(d):
    b, t, h, n = d.int(1, 2), d.int(1, 4), d.int(1, 3), 2 * d.int(1, 4)
    table = d.choose(*FLOATS.values())
    cos, sin = d.tensor(t + 1, n // 2, dtype=table), d.tensor(t + 1, n // 2, dtype=table)
    return [d.tensor(b, t, h, n), d.other(n), cos, sin, d.maybe(d.ids(t + 1, b, t))], {
        "eps": 1e-5,
        "order": d.choose("half", "interleaved"),
    }


def cache_write(d):
    n, h, w, c = d.int(1, 4), d.int(1, 3), 2 * d.int(1, 4), d.int(4, 8)
    slots = d.rng.permutation(c)[:n].astype(d.choose(np.int32, np.int64))
    return [d.tensor(n, h, w), slots, np.array(d.tensor(c, h, w))], {}


def rope_cache_write(d, norm=False):
    (k, slots, k_cache), _ = cache_write(d)
    n, h, w = k.shape
    e, t, table = d.int(1, 5), d.int(1, 6), d.choose(*FLOATS.values())
    cos, sin = d.tensor(t, w // 2, dtype=table), d.tensor(t, w // 2, dtype=table)
    positions = d.rng.integers(0, t, n).astype(slots.dtype)
    weight = [d.other(w)] if norm else []
    v, v_cache = d.tensor(n, h, e), np.array(d.tensor(k_cache.shape[0], h, e))
    options = {"order": d.choose("half", "interleaved")} | ({"eps": 1e-5} if norm else {})
    return [k, v, *weight, cos, sin, positions, slots, k_cache, v_cache], options


def rope_qk_cache_write(d):
    (k, *rest), options = rope_cache_write(d)
    n, h, w = k.shape
    norms = [d.maybe(d.other(w)), d.maybe(d.other(w))]
    return [d.tensor(n, d.int(1, 4), w), k, rest[0], *norms, *rest[1:]], options | {"eps": 1e-5}


def rms_norm_linear_rope_cache_write(d):
    (q, k, v, _, _, *rest), options = rope_qk_cache_write(d)
    (n, g, w), (_, h, wide) = q.shape, v.shape
    m, o = d.int(1, 6), g * w + h * (w + wide)
    product = [d.tensor(n, m), d.other(m), d.tensor(o, m), d.maybe(d.other(o))]
    return [*product, *rest], options


def attention(d):
    b, g, t, s, w, dv = d.int(1, 2), d.int(1, 2), d.int(1, 5), d.int(1, 6), d.int(1, 8), d.int(1, 8)
    h = g * d.int(1, 3)
    mask = d.maybe(d.tensor(b, h, t, s))
    alibi = d.maybe(d.other(h))
    sinks = d.maybe(d.tensor(h))
    options = {"causal": bool(d.int(0, 1)), "scale": d.choose(None, 0.3), "softcap": d.choose(None, 2.0)}
    return [d.tensor(b, h, t, w), d.tensor(b, g, s, w), d.tensor(b, g, s, dv), mask, alibi, sinks], options


def attention_varlen(d):
    g, w, dv, texts = d.int(1, 2), d.int(1, 8), d.int(1, 8), d.int(1, 3)
    h, q, k = g * d.int(1, 3), [d.int(0, 4) for _ in range(texts)], [d.int(1, 5) for _ in range(texts)]
    q[0] += 1
    starts = [np.cumsum([0, *lengths]).astype(np.uint32) for lengths in (q, k)]
    operands = [d.tensor(sum(q), h, w), d.tensor(sum(k), g, w), d.tensor(sum(k), g, dv), *starts]
    return [*operands, d.maybe(d.tensor(h)), d.maybe(d.other(h))], {}


def attention_paged(d):
    g, w, dv, texts, block, width = d.int(1, 2), d.int(1, 8), d.int(1, 8), d.int(1, 3), d.int(1, 4), d.int(1, 3)
    h, pages, index = g * d.int(1, 3), d.int(1, 5), d.choose(np.int32, np.uint32)
    lengths = np.array([d.int(1, block * width) for _ in range(texts)], index)
    q = [d.int(1, int(length)) for length in lengths]
    starts = np.cumsum([0, *q]).astype(np.uint32)
    table = d.rng.integers(0, pages, (texts, width)).astype(index)
    k, v = d.tensor(pages, block, g, w), d.tensor(pages, block, g, dv)
    return [d.tensor(sum(q), h, w), k, v, table, lengths, starts, d.maybe(d.tensor(h)), d.maybe(d.other(h))], {}


def group_norm(d):
    groups, per = d.int(1, 3), d.int(1, 3)
    x = d.tensor(d.int(1, 2), groups * per, *d.dims(0, 2))
    return [x, d.maybe(d.other(groups * per)), d.maybe(d.other(groups * per))], {"num_groups": groups, "eps": 1e-5}


def conv(d, axes, transposed=False):
    groups, per_in, per_out = d.int(1, 2), d.int(1, 3), d.int(1, 3)
    kernel = [d.int(1, 3) for _ in range(axes)]
    x = d.tensor(d.int(1, 2), groups * per_in, *[d.int(3, 7) for _ in range(axes)])
    dims = [groups * per_in, per_out] if transposed else [groups * per_out, per_in]
    several = tuple if axes > 1 else lambda one: one[0]
    options = {"groups": groups, "stride": several([d.int(1, 2) for _ in range(axes)])}
    if not transposed:
        options["padding"] = several([d.int(0, 1) for _ in range(axes)])
    bias = d.maybe(d.other(groups * per_out))
    return [x, d.tensor(*dims, *kernel), bias], options


def pool(d):
    x = d.tensor(d.int(1, 2), d.int(1, 3), d.int(3, 7), d.int(3, 7))
    return [x], {"kernel": (d.int(1, 3), d.int(1, 3)), "stride": (d.int(1, 2), d.int(1, 2))}


def upsample(d, axes):
    x = d.tensor(d.int(1, 2), d.int(1, 3), *[d.int(1, 5) for _ in range(axes)])
    return [x], {"size": tuple(d.int(1, 9) for _ in range(axes))}


def router_topk(d):
    n, e = d.int(1, 4), d.int(1, 8)
    return [d.tensor(n, e), d.maybe(d.tensor(e))], {"k": d.int(1, e), "renormalize": bool(d.int(0, 1))}


def linear_experts(d):
    n, k, w, e, o = d.int(1, 4), d.int(1, 3), d.int(1, 8), d.int(1, 4), d.int(1, 6)
    x = d.tensor(n, d.choose(1, k), w)
    return [x, d.other(e, o, w), d.ids(e, n, k), d.maybe(d.tensor(e, o))], {}


def linear_experts_swiglu(d):
    n, k, w, e, o = d.int(1, 4), d.int(1, 3), d.int(1, 8), d.int(1, 4), d.int(1, 6)
    kind = np.float64 if d.dtype == np.float64 else np.float32
    gate, up = d.other(e, o, w), d.other(e, o, w)
    biases = [d.maybe(d.tensor(e, o, dtype=kind)) for _ in range(2)]
    options = {"alpha": 1.7, "limit": 1.5} if d.int(0, 1) else {}
    return [d.tensor(n, d.choose(1, k), w), gate, up, d.ids(e, n, k), *biases], options


def linear_experts_combine(d):
    n, k, w, e, o = d.int(1, 4), d.int(1, 3), d.int(1, 8), d.int(1, 4), d.int(1, 6)
    kind = np.float64 if d.dtype == np.float64 else np.float32
    bias, weights = d.maybe(d.tensor(e, o, dtype=kind)), d.tensor(n, k, dtype=np.float32)
    return [d.tensor(n, k, w), d.other(e, o, w), d.ids(e, n, k), bias, weights], {}


def conv1d_update(d):
    b, t, c, w = d.int(1, 2), d.int(1, 5), d.int(1, 4), d.int(1, 4)
    operands = [d.tensor(b, t, c), d.tensor(c, w), d.maybe(d.other(c)), np.array(d.tensor(b, c, w - 1))]
    return operands, {"activation": d.choose("none", "silu")}


def gated_delta_rule(d):
    b, t, h, w, dv = d.int(1, 2), d.int(1, 4), d.int(1, 2), d.int(1, 6), d.int(1, 6)
    decay, beta = (d.tensor(b, t, h, dtype=np.float32) for _ in range(2))
    state = np.array(d.tensor(b, h, w, dv, dtype=np.float32))
    q, k = d.tensor(b, t, h, w) * d.dtype(0.3), d.tensor(b, t, h, w) * d.dtype(0.3)
    return [q, k, d.tensor(b, t, h, dv), -abs(decay), beta, state], {}


def sample(d):
    n, v = d.int(1, 4), d.int(1, 20)
    options = {"temperature": d.choose(0.0, 0.7), "top_k": d.choose(None, 3), "top_p": d.choose(None, 0.9)}
    return [d.tensor(n, v), d.rng.integers(0, 100, n)], options | {"seed": d.int(0, 99)}


def batch_norm(d):
    c = d.int(1, 4)
    x = d.tensor(d.int(1, 2), c, *d.dims(0, 2))
    return [x, d.maybe(d.other(c)), d.maybe(d.other(c)), d.other(c), abs(d.other(c))], {"eps": 1e-5}


def where(d):
    dims = d.dims(1, 3)
    cond = d.rng.integers(0, 2, dims).astype(bool)
    return [cond, d.tensor(*dims[d.int(0, 1) :]), d.tensor(*dims)], {}


def two(d):
    dims = d.dims(1, 3)
    other = [d.choose(1, extent) for extent in dims][d.int(0, len(dims) - 1) :]
    pair = [d.tensor(*dims), d.tensor(*other)]
    return pair[:: d.choose(1, -1)], {}


def topk(d):
    x = d.tensor(*d.dims(1, 3))
    return [x], {"k": d.int(1, x.shape[-1])}


def written(d):
    return [np.zeros(d.dims(1, 3), d.dtype)], {}


SPECIAL = {
    **dict.fromkeys(["sum", "mean", "max", "min", "prod"], reduce),
    **dict.fromkeys(["argmax", "argmin"], along_axis),
    **dict.fromkeys(["cumsum", "cumprod", "softmax", "log_softmax"], along_axis),
    **dict.fromkeys(["powf", "clamp", "elu", "copy"], rows),
    **dict.fromkeys(["gather"], gather),
    **dict.fromkeys(["scatter", "scatter_add"], scatter),
    **dict.fromkeys(["rope", "rope_i"], rope),
    **dict.fromkeys(["rope_inplace", "rope_i_inplace"], lambda d: rope(d, inplace=True)),
    **dict.fromkeys(["max_pool2d", "avg_pool2d"], pool),
    **dict.fromkeys(["upsample_nearest2d", "upsample_bilinear2d"], lambda d: upsample(d, 2)),
    **dict.fromkeys(["random_uniform", "random_normal", "fill", "arange"], written),
    "rope_thd": lambda d: rope(d, thd=True),
    "rope_thd_inplace": lambda d: rope(d, thd=True, inplace=True),
    "upsample_nearest1d": lambda d: upsample(d, 1),
    "index_select": index_select,
    "index_add": index_add,
    "qk_norm_rope": qk_norm_rope,
    "cache_write": cache_write,
    "rope_cache_write": rope_cache_write,
    "qk_norm_rope_cache_write": lambda d: rope_cache_write(d, norm=True),
    "rope_qk_cache_write": rope_qk_cache_write,
    "rms_norm_linear_rope_cache_write": rms_norm_linear_rope_cache_write,
    "attention": attention,
    "attention_varlen": attention_varlen,
    "attention_paged": attention_paged,
    "group_norm": group_norm,
    "conv1d": lambda d: conv(d, 1),
    "conv2d": lambda d: conv(d, 2),
    "conv_transpose1d": lambda d: conv(d, 1, transposed=True),
    "conv_transpose2d": lambda d: conv(d, 2, transposed=True),
    "router_topk": router_topk,
    "linear_experts": linear_experts,
    "linear_experts_swiglu": linear_experts_swiglu,
    "linear_experts_combine": linear_experts_combine,
    "conv1d_update": conv1d_update,
    "gated_delta_rule": gated_delta_rule,
    "sample": sample,
    "batch_norm": batch_norm,
    "where": where,
    "topk": topk,
    "linear": lambda d: linear(d),
    "linear_swiglu": lambda d: linear_swiglu(d),
    "linear_add": lambda d: linear_add(d),
    "rms_norm_linear": lambda d: normed(d, linear),
    "rms_norm_linear_swiglu": lambda d: normed(d, linear_swiglu),
    "cast": lambda d: ([d.tensor(*d.dims())], {"to": d.choose("f16", "f32", "f64", "i32")}),
    "combine_experts": lambda d: combine_experts(d),
}
#: Numbers for options without a default.
NUMBERS = {"eps": 1e-5, "mul": 2.5, "add": -0.5, "exponent": 2.0, "alpha": 0.7, "min": -0.5, "max": 0.5, "value": 3.0, "limit": 1.5}


def linear(d):
    k, n = d.int(1, 40), d.int(1, 9)
    return [d.tensor(*d.dims(0, 2), k), d.other(n, k), d.maybe(d.other(n))], {}


def linear_swiglu(d):
    k, n, kind = d.int(1, 40), d.int(1, 9), d.choose(*FLOATS.values())
    return [d.tensor(*d.dims(0, 2), k), d.tensor(n, k, dtype=kind), d.tensor(n, k, dtype=kind)], {}


def linear_add(d):
    k, n, outer = d.int(1, 40), d.int(1, 9), d.dims(0, 2)
    return [d.tensor(*outer, k), d.other(n, k), d.tensor(*outer, n)], {}


def normed(d, product):
    (x, *rest), options = product(d)
    return [x, d.other(x.shape[-1]), *rest], options


def combine_experts(d):
    n, k, w = d.int(1, 4), d.int(1, 3), d.int(1, 8)
    return [d.tensor(n, k, w), d.tensor(n, k, dtype=np.float32)], {}


def case(op, d):
    if op["name"] in SPECIAL:
        operands, options = SPECIAL[op["name"]](d)
    elif op["broadcasts"]:
        operands, options = two(d)
    else:
        operands, options = declared(op, d), {}
    for option in op["options"]:
        if option["needed"] and option["name"] not in options:
            options[option["name"]] = NUMBERS[option["name"]]
    return operands, options


def close(got, want, name):
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    if got.dtype.kind != "f":
        assert np.array_equal(got, want), name
        return
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), name
    a, b = got[finite].astype(np.float64), want[finite].astype(np.float64)
    limit = LIMITS[next(name for name, dtype in FLOATS.items() if dtype == got.dtype)]
    assert ((a - b) ** 2).sum() <= limit * (b**2).sum() + 1e-300, name


def floats(op):
    return [name for name in FLOATS if name in op["types"]]


#: Blocks have tests of their own.
TESTED = [op for op in OPS.values() if floats(op) and all(one["kind"] != "blocks" for one in op["operands"])]


@pytest.mark.parametrize("op", TESTED, ids=lambda op: op["name"])
def test_results_are_those_of_the_reference(op):
    outputs = [operand for operand in op["operands"] if operand["role"] == "out"]
    optional = [operand["name"] for operand in outputs if operand["optional"]]
    changes = [at for at, one in enumerate(x for x in op["operands"] if x["role"] != "out") if one["role"] == "inout"]

    @settings(max_examples=300, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from(floats(op)))
    def check(seed, dtype):
        operands, options = case(op, Draw(seed, dtype))
        again = [x.copy() if at in changes else x for at, x in enumerate(operands)]
        # Every other case writes into memory that the test has.
        want = rocm_ops.call(op["name"], tuple(again), options, None, optional, backend="reference")
        want = want if isinstance(want, tuple) else (want,) if outputs else ()
        if seed % 2 and outputs:
            mine = tuple(np.full_like(y, 7) for y in want)
            got = rocm_ops.call(op["name"], tuple(operands), options, mine)
            got = got if isinstance(got, tuple) else (got,)
            assert all(one is other for one, other in zip(got, mine, strict=True))
        else:
            got = rocm_ops.call(op["name"], tuple(operands), options, None, optional)
            got = got if isinstance(got, tuple) else (got,) if outputs else ()
        for one, other in zip(got, want, strict=True):
            close(one, other, op["name"])
        for at in changes:
            close(operands[at], again[at], op["name"])

    check()


def test_every_op_on_floats_is_tested():
    names = {op["name"] for op in TESTED}
    rest = {name for name, op in OPS.items() if name not in names}
    integers = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"}
    assert rest - integers == {"qlinear", "qlinear_experts", "qembedding", "quantize", "dequantize"}
    assert set(SPECIAL) <= names and len(names) > 90


def test_a_wrong_result_is_noticed():
    want = np.ones(100, np.float32)
    got = want.copy()
    got[17] += 1e-3
    with pytest.raises(AssertionError):
        close(got, want, "test")
    with pytest.raises(AssertionError):
        close(np.array([1, 2]), np.array([1, 3]), "test")


@pytest.mark.parametrize("op", [op for op in OPS.values() if re.search("bitwise|shift", op["name"])], ids=lambda op: op["name"])
def test_integers(op):
    rng = np.random.default_rng(0)
    operands = [rng.integers(0, 7, (3, 5)).astype(np.int32) for one in op["operands"] if one["role"] == "in"]
    got, want = rocm_ops.call(op["name"], tuple(operands)), rocm_ops.call(op["name"], tuple(operands), backend="reference")
    assert np.array_equal(got, want)


@pytest.mark.parametrize("format", ["q8_0", "q4_k", "q6_k"])
def test_blocks(format):
    rng = np.random.default_rng(0)
    matrix, x = rng.standard_normal((6, 512)).astype(np.float32), rng.standard_normal((3, 512)).astype(np.float32)
    q = rocm_ops.quantize(matrix, to=format)
    rows = rocm_ops.dequantize(q).numpy()
    assert ((rows - matrix) ** 2).mean() < 0.02
    exact = rocm_ops.call("qlinear", (x, q), backend="reference")
    assert np.allclose(exact, x @ rows.T, rtol=1e-4, atol=1e-4)
    # The CPU rounds activations to 8 bits.
    got = rocm_ops.qlinear(x, q)
    assert ((got - exact) ** 2).sum() < 1e-3 * (exact**2).sum()
    ids = np.array([5, 0], np.int32)
    assert np.array_equal(rocm_ops.qembedding(q, ids).numpy(), rows[ids])
    assert rocm_ops.qembedding(q, ids, dtype="f64").dtype == "f64"


@pytest.mark.parametrize("format", ["f32", "q8_0"])
def test_packed_weights(format):
    rng = np.random.default_rng(0)
    matrix, x = rng.standard_normal((48, 256)).astype(np.float32), rng.standard_normal((3, 256)).astype(np.float32)
    weight, op = (matrix, "linear") if format == "f32" else (rocm_ops.quantize(matrix, to=format), "qlinear")
    packed = rocm_ops.pack_weight(weight)
    assert packed.packed and packed.shape == tuple(weight.shape) and packed.dtype == format
    assert np.allclose(rocm_ops.call(op, (x, packed)), rocm_ops.call(op, (x, weight)), rtol=1e-5, atol=1e-4)
    plain = rocm_ops.from_dlpack(weight).numpy()
    assert np.array_equal(packed.unpacked().numpy(), plain)
    # Others see its bytes, of which the tensor can be made again.
    again = rocm_ops._native.packed(packed.numpy(), format, packed.shape)
    assert again.data_ptr == packed.data_ptr and np.array_equal(again.unpacked().numpy(), plain)
    for wrong in [packed.numpy()[1:], packed.numpy()[::-1]]:
        with pytest.raises(ValueError, match="is no packed weight"):
            rocm_ops._native.packed(wrong, format, packed.shape)
    # Only these ops know the order.
    with pytest.raises(rocm_ops.Unsupported, match="packed"):
        rocm_ops.call(op, (x.astype(np.float64), packed))
    with pytest.raises(ValueError, match="read-only"):
        rocm_ops.fill(packed, value=0.0)
    assert rocm_ops.pack_weight(packed) is packed
    small = np.ones((2, 32), np.float32)
    assert rocm_ops.pack_weight(small) is small
    with pytest.raises(ValueError, match="must be contiguous"):
        rocm_ops.pack_weight(matrix.T)
