#!/usr/bin/env python3
"""Bytes, launches and the least time of a token of decoding, for some models in Q4_K_M on some AMD cards.

Nothing is measured. Bytes are those of the weights that a token reads, by llama.cpp's recipe for Q4_K_M, and of keys, values and
recurrent states. The least time is that of reading and writing these bytes at the memory bandwidth in the card's data sheet.
Launches are for waves of 32. tests/on_rocm/launches.rs counts those of a layer; a step has seven more, and a layer one more where
Q4_K_M stores matrices of one product in two types.

  tools/lab/amd-by-count.py [--tokens N]      Markdown tables; N tokens are in the cache (default 16)

The last table is of models divided over several cards. Each card reads 1/n of the bytes, and each layer has two all_reduces of one row. Their
time on AMD is not known, so the table has a row for each of two times.
"""
import argparse
import math

# Bytes of a value.
BYTES = {"q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256, "f16": 2, "f32": 4}

# GB/s, by data sheet.
CARDS = {"7900 XTX": 960, "9070 XT": 640, "Strix Halo": 256, "MI300X": 5300}

# As tests/on_rocm/launches.rs counts them, except that linear attention takes 12 instead of 11: Q4_K_M stores its projections in two
# types, so they are two products.
LAUNCHES = {"attention of qwen35moe": 7, "linear attention of qwen35moe": 12, "experts of qwen35moe": 12}

# Tokens per second that others report for an empty or short cache, with llama.cpp unless it says otherwise.
OTHERS = {
    ("Qwen3-0.6B", "9070 XT"): "HIP 292, Vulkan 572 (llama.cpp#26663)",
    ("Qwen3-8B", "9070 XT"): "HIP 91.1, Vulkan 104.3 (llama.cpp#26663)",
    ("Qwen3-8B", "7900 XTX"): "HIP 105.7, of Llama 8B (llama.cpp#26284)",
    ("Qwen3.6-35B-A3B", "7900 XTX"): "HIP 85.5, Vulkan 127.5, hipENGINE 111.7, on a 7900 XTX or W7900 (shisa-ai/hipEngine)",
}


def more_bits(layer, layers):
    """Whether Q4_K_M stores some matrices of this layer in q6_k."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


class Token:
    """What a token reads and writes, in bytes, and how often it launches."""

    def __init__(self):
        self.weights = self.memory = 0
        # The embedding before the layers; the logits with the norm before them, and five for drawing and counting.
        self.launches = 1 + 6

    def matrix(self, kind, *dims):
        self.weights += math.prod(dims) * BYTES[kind]

    def attention(self, dim, heads, kv_heads, head, high, tokens, gated=False):
        """An attention layer's products, and its keys and values."""
        self.matrix("q4_k", dim, heads * head * (2 if gated else 1))
        self.matrix("q4_k", dim, kv_heads * head)
        self.matrix("q6_k" if high else "q4_k", dim, kv_heads * head)
        self.matrix("q4_k", heads * head, dim)
        self.memory += 2 * kv_heads * head * BYTES["f16"] * tokens

    def feed_forward(self, dim, width, high, count=1):
        self.matrix("q4_k", dim, width, 2 * count)
        self.matrix("q6_k" if high else "q4_k", width, dim, count)


def dense(layers, dim, heads, kv_heads, head, width, vocabulary, tokens):
    token = Token()
    for layer in range(layers):
        high = more_bits(layer, layers)
        token.attention(dim, heads, kv_heads, head, high, tokens)
        token.feed_forward(dim, width, high)
        # Values of another type than queries and keys are a product of their own.
        token.launches += 7 if high else 6
    token.matrix("q6_k", dim, vocabulary)
    return token


def qwen35moe(tokens):
    """Qwen3.5 and 3.6 35B-A3B: three layers of linear attention, then one of attention; 8 of 256 experts and a shared one."""
    layers, dim, vocabulary = 40, 2048, 248320
    token = Token()
    for layer in range(layers):
        high = more_bits(layer, layers)
        if layer % 4 == 3:
            token.attention(dim, 16, 2, 256, high, tokens, gated=True)
            token.launches += LAUNCHES["attention of qwen35moe"] + high
        else:
            key, value = 16 * 128, 32 * 128
            token.matrix("q5_k", dim, 2 * key + value)
            token.matrix("q4_k", dim, value, 2)
            token.matrix("q4_k", dim, 32, 2)
            # The state of 32 heads in f32, read and written.
            token.memory += 2 * 32 * 128 * 128 * BYTES["f32"]
            token.launches += LAUNCHES["linear attention of qwen35moe"]
        token.matrix("f32", dim, 256)
        token.feed_forward(dim, 512, high, 8)
        token.feed_forward(dim, 512, high)
        token.launches += LAUNCHES["experts of qwen35moe"]
    token.matrix("q6_k", dim, vocabulary)
    return token


# Cards, and microseconds of an all_reduce of some KiB: what MI355X take over xGMI (6.3; vllm#39080), and two guesses for PCI Express.
GROUPS = {("7900 XTX", 2): (10, 25), ("MI300X", 8): (6.3, 10)}

# Layers, width, heads, heads of keys, features of a head, width of the feed-forward block, vocabulary.
DIVIDED = {
    "Qwen3-8B": (36, 4096, 32, 8, 128, 12288, 151936),
    "Qwen3-32B": (64, 5120, 64, 8, 128, 25600, 151936),
    "Llama 3.3 70B": (80, 8192, 64, 8, 128, 28672, 128256),
}


def divided(tokens):
    """The table of several cards."""
    print("| model | cards | MB each | reading, ms | all_reduces | each, µs | tokens/s | × one card |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name, shape in DIVIDED.items():
        token = dense(*shape, tokens)
        for (card, ranks), costs in GROUPS.items():
            bytes_of_one, calls = token.weights + token.memory, 2 * shape[0]
            reading = bytes_of_one / ranks / CARDS[card] / 1e6
            for cost in costs:
                ms = reading + calls * cost / 1000
                ratio = bytes_of_one / CARDS[card] / 1e6 / ms
                row = f"{bytes_of_one / ranks / 1e6:,.0f} | {reading:.2f} | {calls} | {cost} | {1000 / ms:.0f} | {ratio:.2f}"
                print(f"| {name} | {ranks}× {card} | {row} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16, help="tokens in the cache (default: 16)")
    tokens = parser.parse_args().tokens
    models = {
        "Qwen3-0.6B": dense(28, 1024, 16, 8, 128, 3072, 151936, tokens),
        "Qwen3-8B": dense(36, 4096, 32, 8, 128, 12288, 151936, tokens),
        "Qwen3.6-35B-A3B": qwen35moe(tokens),
    }
    print("| model | launches, waves of 32 | MB | " + " | ".join(f"{card}, ms | tokens/s" for card in CARDS) + " |")
    print("|---|---:|---:|" + "---:|---:|" * len(CARDS))
    for name, token in models.items():
        total = token.weights + token.memory
        cells = []
        for bandwidth in CARDS.values():
            ms = total / bandwidth / 1e6
            cells.append(f"{ms:.2f} | {1000 / ms:.0f}")
        print(f"| {name} | {token.launches} | {total / 1e6:,.0f} | " + " | ".join(cells) + " |")
    print()
    print("| model | card | reported by others, tokens/s |")
    print("|---|---|---|")
    for (name, card), said in OTHERS.items():
        print(f"| {name} | {card} | {said} |")
    print()
    divided(tokens)


if __name__ == "__main__":
    main()
