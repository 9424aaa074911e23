"""Writes a llama of random weights, shaped like one of a billion, in a type or mixture: model.py OUT.gguf TYPE.

Codes and scales of sub-blocks are random bytes; the scales of blocks are such that a weight's deviation is about 0.02.
"""

import re
import sys
from pathlib import Path

import gguf
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/generate"))
from random_llama import SHAPES, WORDS, tensors

SHAPE = SHAPES["1b"]
LAYERS, WIDTH, HIDDEN, HEADS, GROUPS = SHAPE[:5]

# Bytes of a block, and its non-random fields: the position of an f16 or a byte, and its value.
BLOCKS = {
    "q4_0": (32, 18, {0: 0.005}),
    "q8_0": (32, 34, {0: 0.0003}),
    "q4_k": (256, 144, {0: 1e-4, 2: 7.5e-4}),
    "q5_k": (256, 176, {0: 5e-5, 2: 7.75e-4}),
    "q6_k": (256, 210, {208: 1.6e-5}),
    "iq4_xs": (256, 136, {0: 1.7e-5}),
    "mxfp4": (32, 17, {0: 120}),
}
TYPES = {
    "q4_0": "Q4_0", "q8_0": "Q8_0", "q4_k": "Q4_K", "q5_k": "Q5_K", "q6_k": "Q6_K", "iq4_xs": "IQ4_XS", "mxfp4": "MXFP4",
}


def blocks(random, kind, rows, columns):
    values, size, fixed = BLOCKS[kind]
    raw = np.frombuffer(random.bytes(rows * columns // values * size), np.uint8).reshape(-1, size).copy()
    for at, number in fixed.items():
        if isinstance(number, int):
            raw[:, at] = number
        else:
            raw[:, at : at + 2] = np.frombuffer(np.float16(number).tobytes(), np.uint8)
    return raw.reshape(rows, -1)


def more_bits(layer):
    """The layers whose values and last product the mixture q4_k_m gives more bits."""
    return layer < LAYERS // 8 or layer >= 7 * LAYERS // 8 or (layer - LAYERS // 8) % 3 == 2


def kind_of(name, wanted):
    if wanted != "q4_k_m":
        return wanted
    if name == "output.weight":
        return "q6_k"
    layer = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", name)
    return "q6_k" if layer and more_bits(int(layer[1])) else "q4_k"


def share_of_table():
    """The share of the weights that the table of embeddings has."""
    layer = WIDTH * (2 * WIDTH + 2 * WIDTH // HEADS * GROUPS + 3 * HIDDEN)
    return WORDS * WIDTH / (2 * WORDS * WIDTH + LAYERS * layer)


def vocabulary(writer):
    words = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % i for i in range(256))]
    words += [b"w%d" % i for i in range(len(words), WORDS)]
    T = gguf.TokenType
    kinds = [T.UNKNOWN, T.CONTROL, T.CONTROL, *[T.BYTE] * 256]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * WORDS)
    writer.add_token_types(kinds + [T.NORMAL] * (WORDS - len(kinds)))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def main(path, wanted):
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(WORDS)
    vocabulary(writer)

    def matrix(name, rows, columns):
        kind = kind_of(name, wanted)
        raw = blocks(random, kind, rows, columns)
        writer.add_tensor(name, raw, raw_dtype=getattr(gguf.GGMLQuantizationType, TYPES[kind]))

    for name, dims in tensors(SHAPE):
        if len(dims) == 1:
            writer.add_tensor(name, np.ones(dims[0], np.float32))
        else:
            matrix(name, *dims)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
