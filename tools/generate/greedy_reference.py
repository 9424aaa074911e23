"""Writes tests/data/greedy.json: what a model generates greedily, computed in float64 with NumPy.

Usage: python3 tools/generate/greedy_reference.py models/tiny-llama-kjv-f16.gguf > tests/data/greedy.json
Needs: pip install gguf numpy tokenizers. Shares no code with the project: the reader, the tokenizer and the arithmetic
are other people's, or the few lines below.
"""
import json
import sys

import numpy as np
from gguf import GGUFReader, dequantize
from tokenizers import Tokenizer, models, pre_tokenizers

PROMPTS = ["And it came to pass", "In the beginning", "The LORD is my shepherd;", "Blessed are the", "¿Quién? 42\n\n  x"]
TOKENS = 48

reader = GGUFReader(sys.argv[1])
weights = {}
for t in reader.tensors:
    shape = [int(n) for n in t.shape][::-1]
    weights[t.name] = dequantize(t.data, t.tensor_type).astype(np.float64).reshape(shape)


def field(name):
    return reader.fields[name].contents()


layers, heads, kv_heads = field("llama.block_count"), field("llama.attention.head_count"), field("llama.attention.head_count_kv")
d, base, eps = field("llama.rope.dimension_count"), field("llama.rope.freq_base"), field("llama.attention.layer_norm_rms_epsilon")
vocab = {text: i for i, text in enumerate(field("tokenizer.ggml.tokens"))}
merges = [tuple(m.split(" ", 1)) for m in field("tokenizer.ggml.merges")]
tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rope(x, cos, sin):
    even, odd, y = x[..., 0::2], x[..., 1::2], np.empty_like(x)
    y[..., 0::2], y[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
    return y


def logits(ids):
    x, t = weights["token_embd.weight"][ids], len(ids)
    angle = np.outer(np.arange(t), base ** (-np.arange(0, d, 2) / d))[:, None]
    cos, sin, hidden = np.cos(angle), np.sin(angle), np.triu(np.full((t, t), -np.inf), 1)
    for i in range(layers):
        w = lambda name: weights[f"blk.{i}.{name}.weight"]
        h = rms_norm(x, w("attn_norm"))
        q = rope((h @ w("attn_q").T).reshape(t, heads, -1), cos, sin)
        k = rope((h @ w("attn_k").T).reshape(t, kv_heads, -1), cos, sin)
        v = (h @ w("attn_v").T).reshape(t, kv_heads, -1)
        group = heads // kv_heads
        o = [softmax(q[:, n] @ k[:, n // group].T / np.sqrt(d) + hidden) @ v[:, n // group] for n in range(heads)]
        x = x + np.concatenate(o, -1) @ w("attn_output").T
        h = rms_norm(x, w("ffn_norm"))
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return rms_norm(x[-1], weights["output_norm.weight"]) @ weights["token_embd.weight"].T


def greedy(prompt):
    ids, generated = [field("tokenizer.ggml.bos_token_id")] + tokenizer.encode(prompt).ids, []
    while len(generated) < TOKENS and generated[-1:] != [field("tokenizer.ggml.eos_token_id")]:
        generated.append(int(logits(ids + generated).argmax()))
    return {"prompt": prompt, "prompt_ids": ids, "ids": generated}


print(json.dumps([greedy(p) for p in PROMPTS], indent=1))
