"""Writes a llama of a billion random weights in f16, for timing: random_llama.py OUT.gguf [LAYERS]

Needs nothing beside Python. Weights have a random sign and magnitudes from 1/64 to 1/32.
"""

import random
import struct
import sys

# The shape of the model, the same as in peers/llama/model.py.
LAYERS, WIDTH, HIDDEN, HEADS, GROUPS, WORDS = 16, 2048, 8192, 32, 8, 32000
U32, F32, STRING, ARRAY = 4, 6, 8, 9
F16_TENSOR, F32_TENSOR = 1, 0
# Keeps the sign and two bits of the fraction in an f16's upper byte; the exponent becomes that of 1/64.
UPPER = bytes((byte & 0x83) | 0x24 for byte in range(256))


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def field(name, kind, value):
    return string(name) + struct.pack("<I", kind) + value


def metadata(layers):
    number = lambda name, value: field(f"llama.{name}", U32, struct.pack("<I", value))
    words = b"".join(string(f"w{i}") for i in range(WORDS))
    scores = struct.pack("<IQ", F32, WORDS) + bytes(4 * WORDS)
    return [
        field("general.architecture", STRING, string("llama")),
        number("block_count", layers),
        number("context_length", 4096),
        number("embedding_length", WIDTH),
        number("feed_forward_length", HIDDEN),
        number("attention.head_count", HEADS),
        number("attention.head_count_kv", GROUPS),
        number("rope.dimension_count", WIDTH // HEADS),
        field("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        field("tokenizer.ggml.model", STRING, string("llama")),
        field("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, WORDS) + words),
        field("tokenizer.ggml.scores", ARRAY, scores),
    ]


def tensors(layers):
    kv = WIDTH // HEADS * GROUPS
    yield "token_embd.weight", (WORDS, WIDTH)
    for layer in range(layers):
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", kv, WIDTH),
            ("attn_v", kv, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", HIDDEN, WIDTH),
            ("ffn_up", HIDDEN, WIDTH),
            ("ffn_down", WIDTH, HIDDEN),
        ):
            yield f"blk.{layer}.{name}.weight", (rows, columns)
        yield f"blk.{layer}.attn_norm.weight", (WIDTH,)
        yield f"blk.{layer}.ffn_norm.weight", (WIDTH,)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (WORDS, WIDTH)


def halves(generator, count):
    data = bytearray(generator.randbytes(2 * count))
    data[1::2] = data[1::2].translate(UPPER)
    return data


def main(path, layers=LAYERS):
    layers = int(layers)
    all_tensors, fields = list(tensors(layers)), metadata(layers)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(fields)) + b"".join(fields)
    offset = 0
    for name, dims in all_tensors:
        kind, size = (F32_TENSOR, 4 * dims[0]) if len(dims) == 1 else (F16_TENSOR, 2 * dims[0] * dims[1])
        header += string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims))
        header += struct.pack("<IQ", kind, offset)
        offset += size + -size % 32
    generator = random.Random(7)
    with open(path, "wb") as out:
        out.write(header + bytes(-len(header) % 32))
        # All sizes are multiples of 32, so there is no padding between tensors.
        for _, dims in all_tensors:
            if len(dims) == 1:
                out.write(struct.pack("<f", 1.0) * dims[0])
            else:
                out.write(halves(generator, dims[0] * dims[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
