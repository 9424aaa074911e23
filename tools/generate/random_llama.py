"""Writes a llama of random weights in f16, for timing: random_llama.py OUT.gguf [SHAPE] [LAYERS]

Shapes are 1b, 8b and experts (64 experts, 8 of them for a token). Needs nothing beside Python. Weights have a random sign and
magnitudes from 1/64 to 1/32, and repeat after 32 MiB.
"""

import math
import random
import struct
import sys
from typing import NamedTuple


class Shape(NamedTuple):
    layers: int
    width: int
    hidden: int
    heads: int = 32
    groups: int = 8
    experts: int = 0
    used: int = 0


# 1b is the model of peers/llama/model.py.
SHAPES = {
    "1b": Shape(16, 2048, 8192),
    "8b": Shape(32, 4096, 14336),
    "experts": Shape(16, 2048, 768, experts=64, used=8),
}
WORDS = 32000
U32, F32, STRING, ARRAY = 4, 6, 8, 9
F16_TENSOR, F32_TENSOR = 1, 0
# Keeps the sign and two bits of the fraction in an f16's upper byte; the exponent becomes that of 1/64.
UPPER = bytes((byte & 0x83) | 0x24 for byte in range(256))


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def field(name, kind, value):
    return string(name) + struct.pack("<I", kind) + value


def metadata(shape):
    number = lambda name, value: field(f"llama.{name}", U32, struct.pack("<I", value))
    words = b"".join(string(f"w{i}") for i in range(WORDS))
    scores = struct.pack("<IQ", F32, WORDS) + bytes(4 * WORDS)
    experts = [number("expert_count", shape.experts), number("expert_used_count", shape.used)] if shape.experts else []
    return experts + [
        field("general.architecture", STRING, string("llama")),
        number("block_count", shape.layers),
        number("context_length", 4096),
        number("embedding_length", shape.width),
        number("feed_forward_length", shape.hidden),
        number("attention.head_count", shape.heads),
        number("attention.head_count_kv", shape.groups),
        number("rope.dimension_count", shape.width // shape.heads),
        field("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        field("tokenizer.ggml.model", STRING, string("llama")),
        field("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, WORDS) + words),
        field("tokenizer.ggml.scores", ARRAY, scores),
    ]


def tensors(shape):
    width, hidden, kv = shape.width, shape.hidden, shape.width // shape.heads * shape.groups
    yield "token_embd.weight", (WORDS, width)
    for layer in range(shape.layers):
        of_layer = [("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width), ("attn_output", width, width)]
        if shape.experts:
            count = shape.experts
            of_layer += [("ffn_gate_inp", count, width), ("ffn_gate_exps", count, hidden, width)]
            of_layer += [("ffn_up_exps", count, hidden, width), ("ffn_down_exps", count, width, hidden)]
        else:
            of_layer += [("ffn_gate", hidden, width), ("ffn_up", hidden, width), ("ffn_down", width, hidden)]
        for name, *dims in of_layer:
            yield f"blk.{layer}.{name}.weight", dims
        yield f"blk.{layer}.attn_norm.weight", (width,)
        yield f"blk.{layer}.ffn_norm.weight", (width,)
    yield "output_norm.weight", (width,)
    yield "output.weight", (WORDS, width)


def pool():
    data = bytearray(random.Random(7).randbytes(1 << 25))
    data[1::2] = data[1::2].translate(UPPER)
    return memoryview(bytes(data))


def main(path, shape="1b", layers=None):
    shape = SHAPES[shape]
    if layers:
        shape = shape._replace(layers=int(layers))
    all_tensors, fields = list(tensors(shape)), metadata(shape)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(fields)) + b"".join(fields)
    offset, sizes = 0, []
    for name, dims in all_tensors:
        is_norm = len(dims) == 1
        size = math.prod(dims) * (4 if is_norm else 2)
        header += string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims))
        header += struct.pack("<IQ", F32_TENSOR if is_norm else F16_TENSOR, offset)
        sizes.append((is_norm, size))
        offset += size + -size % 32
    weights, at = pool(), 0
    with open(path, "wb") as out:
        out.write(header + bytes(-len(header) % 32))
        # All sizes are multiples of 32, so there is no padding between tensors.
        for is_norm, size in sizes:
            if is_norm:
                out.write(struct.pack("<f", 1.0) * (size // 4))
                continue
            while size:
                part = weights[at : at + size]
                out.write(part)
                size -= len(part)
                at = (at + len(part)) % len(weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
