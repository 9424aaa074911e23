"""Times PyTorch's CPU operations: reads the name of a case a line, answers microseconds, or `none`."""

import sys
import time

import torch
import torch.nn.functional as F

ROUND = 0.3
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def attention(h, hk, t, s, d, dtype):
    q = torch.randn(1, h, t, d).to(dtype)
    k, v = (torch.randn(1, hk, s, d).to(dtype) for _ in range(2))
    # A single query sees every key; with as many queries as keys, PyTorch's own mask applies.
    causal, grouped = t == s and t > 1, h != hk
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


def rope(op, dims, dtype):
    x = torch.randn(*dims).to(dtype)
    tokens = dims[1] if op == "rope_thd" else dims[2]
    shape = (tokens, 1, dims[3] // 2) if op == "rope_thd" else (tokens, dims[3] // 2)
    cos, sin = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)

    def halves():
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def pairs():
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    return pairs if op == "rope_interleaved" else halves


def rows(op, dims, dtype):
    x, w, b = torch.randn(*dims).to(dtype), torch.randn(dims[-1]).to(dtype), torch.randn(dims[-1]).to(dtype)
    n = (dims[-1],)
    return {
        "rms_norm": lambda: F.rms_norm(x, n, w, 1e-5),
        "layer_norm": lambda: F.layer_norm(x, n, w, b, 1e-5),
        "softmax": lambda: F.softmax(x, -1),
    }[op]


def elementwise(op, dims, dtype):
    x, y = torch.randn(*dims).to(dtype), torch.randn(*dims).to(dtype)
    magnitude = x.abs()
    if op == "where":
        flags = x >= 0
        return lambda: torch.where(flags, x, y)
    return {
        "silu": lambda: F.silu(x),
        "gelu": lambda: F.gelu(x, approximate="tanh"),
        "gelu_erf": lambda: F.gelu(x),
        "sigmoid": lambda: torch.sigmoid(x),
        "affine": lambda: x * 2.0 + 1.0,
        "add": lambda: x + y,
        "swiglu": lambda: F.silu(x) * y,
        "eq": lambda: x == y,
        "lt": lambda: x < y,
        "powf": lambda: magnitude**1.7,
        "clamp": lambda: x.clamp(-0.5, 0.5),
        "transpose": lambda: x.t().contiguous(),
        "sum": lambda: x.sum(-1),
        "sum_first": lambda: x.sum(0),
        "max": lambda: x.amax(-1),
        "max_first": lambda: x.amax(0),
        "argmax": lambda: x.argmax(-1),
        "argmax_first": lambda: x.argmax(0),
        "argsort": lambda: x.argsort(dim=-1, stable=True),
    }[op]


def packed(m, k, n, dtype):
    """A linear layer whose weight oneDNN has ordered before, where it does that for the type."""
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    ordered = torch.ops.mkldnn._reorder_linear_weight
    multiply = torch.ops.mkldnn._linear_pointwise
    try:
        held = ordered(w.to_mkldnn(), m)
        multiply(x, held, None, "none", [], "")
    except RuntimeError:
        return lambda: F.linear(x, w)
    return lambda: multiply(x, held, None, "none", [], "")


def convolution(op, dims, dtype):
    """Batch, channels, height, width, output channels, kernel and groups; stride 1, and padding that keeps the extents."""
    b, c, h, w, o, k, groups = dims
    x, weight = torch.randn(b, c, h, w).to(dtype), torch.randn(o, c // groups, k, k).to(dtype)
    if op == "conv_transpose2d":
        weight = torch.randn(c, o // groups, k, k).to(dtype)
        return lambda: F.conv_transpose2d(x, weight, padding=(k - 1) // 2, groups=groups)
    return lambda: F.conv2d(x, weight, padding=(k - 1) // 2, groups=groups)


def places(op, dims):
    """From and to as many random rows."""
    x, ids = torch.randn(*dims), torch.randint(0, dims[0], (dims[0],))
    places = torch.randint(0, dims[0], dims)
    return {
        "gather": lambda: x.gather(0, places),
        "scatter_add": lambda: torch.zeros(*dims).scatter_add_(0, places, x),
        "index_add": lambda: torch.zeros(*dims).index_add_(0, ids, x),
    }[op]


def case(name):
    op, dims, dtype = name.split(" ")
    dims = [int(d) for d in dims.split("x")]
    if op in ("gather", "scatter_add", "index_add"):
        return places(op, dims)
    if op == "cast":
        source, target = dtype.split(">")
        if source == "u8":
            x = torch.randint(0, 251, dims, dtype=torch.uint8)
            return lambda: x.to(TYPES[target])
        x, target = torch.randn(*dims).to(TYPES[source]), TYPES[target]
        return lambda: x.to(target)
    if dtype not in TYPES:
        return None
    dtype = TYPES[dtype]
    if op in ("rms_norm", "layer_norm", "softmax"):
        return rows(op, dims, dtype)
    if op.startswith("rope"):
        return rope(op, dims, dtype)
    if op == "attention":
        return attention(*dims, dtype)
    if op.startswith("conv"):
        return convolution(op, dims, dtype)
    if op == "linear_packed":
        return packed(*dims, dtype)
    if op in ("matmul", "linear"):
        m, k, n = dims
        x = torch.randn(m, k).to(dtype)
        w = torch.randn(*((k, n) if op == "matmul" else (n, k))).to(dtype)
        return (lambda: x @ w) if op == "matmul" else (lambda: F.linear(x, w))
    return elementwise(op, dims, dtype)


def measure(run):
    """The fastest calls of a round, in microseconds."""
    begin, times = time.perf_counter(), []
    run()
    start = time.perf_counter()
    run()
    batch = max(1, int(20e-6 / (time.perf_counter() - start)) + 1)
    while len(times) < 5 or time.perf_counter() - begin < ROUND:
        start = time.perf_counter()
        for _ in range(batch):
            run()
        times.append((time.perf_counter() - start) * 1e6 / batch)
    # The fastest: on a busy machine, everything above it is due to other programs.
    return min(times)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    last, run = None, None
    with torch.inference_mode():
        for line in sys.stdin:
            name = line.strip()
            if name != last:
                last, run = name, case(name)
            print("none" if run is None else measure(run), flush=True)


if __name__ == "__main__":
    main()
