"""Decodes with PyTorch a llama of the shape of tools/generate/random_llama.py: decode_torch.py TOKENS.. prints tokens per second after each.

Weights in f16, one text, steps recorded as a CUDA graph; attention is torch.nn.functional.scaled_dot_product_attention over a cache of
exactly the tokens before, with grouped heads.
"""

import sys
import time

import torch
from torch.nn import functional

LAYERS, WIDTH, HIDDEN, HEADS, GROUPS, WORDS = 16, 2048, 8192, 32, 8, 32000
D = WIDTH // HEADS
options = {"device": "cuda", "dtype": torch.float16}


def weight(*shape):
    return torch.empty(shape, **options).uniform_(-1 / 32, 1 / 32)


def layer(keys):
    return {
        "qkv": weight(WIDTH + 2 * GROUPS * D, WIDTH),
        "out": weight(WIDTH, WIDTH),
        "gate_up": weight(2 * HIDDEN, WIDTH),
        "down": weight(WIDTH, HIDDEN),
        "norms": [torch.ones(WIDTH, **options) for _ in range(2)],
        "k": weight(1, GROUPS, keys, D),
        "v": weight(1, GROUPS, keys, D),
    }


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def step(layers, x, table, at, cos, sin):
    for one in layers:
        h = functional.rms_norm(x, (WIDTH,), one["norms"][0], 1e-5)
        q, k, v = functional.linear(h, one["qkv"]).split((WIDTH, GROUPS * D, GROUPS * D), -1)
        q, k = (rotated(t.view(1, -1, 1, D), cos, sin) for t in (q, k))
        one["k"].index_copy_(2, at, k)
        one["v"].index_copy_(2, at, v.view(1, GROUPS, 1, D))
        a = functional.scaled_dot_product_attention(q, one["k"], one["v"], enable_gqa=True)
        x = x + functional.linear(a.view(1, WIDTH), one["out"])
        h = functional.rms_norm(x, (WIDTH,), one["norms"][1], 1e-5)
        gate, up = functional.linear(h, one["gate_up"]).chunk(2, -1)
        x = x + functional.linear(functional.silu(gate) * up, one["down"])
    return functional.linear(functional.rms_norm(x, (WIDTH,), layers[0]["norms"][0], 1e-5), table).argmax(-1)


@torch.inference_mode()
def measure(before):
    table, x = weight(WORDS, WIDTH), weight(1, WIDTH)
    layers = [layer(before + 1) for _ in range(LAYERS)]
    at = torch.tensor([before], device="cuda")
    cos, sin = weight(D // 2), weight(D // 2)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(layers, x, table, at, cos, sin)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(layers, x, table, at, cos, sin)
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(64):
            graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / 64)
    print(f"PyTorch {torch.__version__}, f16 after {before} tokens: {best * 1e3:.3f} ms a token, {1 / best:.0f} tokens/s", flush=True)


for tokens in sys.argv[1:]:
    measure(int(tokens))
