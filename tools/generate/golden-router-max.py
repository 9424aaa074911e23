#!/usr/bin/env python3
"""Writes golden cases of router_topk whose groups are marked by their largest score, in float64 and plain Python.

Usage: python3 tools/generate/golden-router-max.py tests/golden-2
"""
import json, math, os, random, struct, sys

CASES = [  # name, scoring, order, tokens, experts, k, groups, kept, bias
    ("1901-router_topk-f32-softmax-before-max-4x64", "softmax", "before", 4, 64, 6, 8, 3, False),
    ("1902-router_topk-f32-sigmoid-before-max-2x128", "sigmoid", "before", 2, 128, 8, 8, 4, True),
    ("1903-router_topk-f32-softmax-after-max-3x8", "softmax", "after", 3, 8, 2, 4, 2, False),
    ("1904-router_topk-f32-sigmoid-after-max-5x40", "sigmoid", "after", 5, 40, 5, 10, 4, True),
]


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def scores(scoring, logits):
    if scoring == "sigmoid":
        return [1 / (1 + math.exp(-v)) for v in logits]
    most = max(logits)
    powers = [math.exp(v - most) for v in logits]
    total = math.fsum(powers)
    return [p / total for p in powers]


def route(case, logits, bias):
    """Ids and weights of one token, and whether every comparison is clear of rounding in f32."""
    _, scoring, order, _, e, k, groups, kept, _ = case
    scored = scores(scoring, logits) if order == "before" else logits
    choice = [s + b for s, b in zip(scored, bias)]
    size = e // groups
    marks = [max(choice[g * size:(g + 1) * size]) for g in range(groups)]
    best = sorted(range(groups), key=lambda g: (-marks[g], g))
    live = [i for i in range(e) if i // size in best[:kept]]
    order_of = sorted(live, key=lambda i: (-choice[i], i))
    apart = lambda a, b: abs(a - b) > 1e-4
    clear = all(apart(choice[a], choice[b]) for a, b in zip(order_of[:k], order_of[1:k + 1]))
    clear &= kept == groups or apart(marks[best[kept - 1]], marks[best[kept]])
    ids = order_of[:k]
    weights = [scored[i] for i in ids] if order == "before" else scores(scoring, [logits[i] for i in ids])
    total = math.fsum(weights) + 1e-20
    return ids, [w / total * 2.5 for w in weights], clear


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, code, values) in tensors.items():
        part = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main(folder):
    draw = random.Random(7)
    for case in CASES:
        name, scoring, order, n, e, k, groups, kept, biased = case
        while True:
            bias = [f32(draw.gauss(0, 0.3)) if biased else 0.0 for _ in range(e)]
            steps = [[-3 + 6 * i / e for i in draw.sample(range(e), e)] for _ in range(n)]
            logits = [[f32(v + draw.random() * 3 / e) for v in row] for row in steps]
            routed = [route(case, row, bias) for row in logits]
            if all(clear for _, _, clear in routed):
                break
        ids = [i for row, _, _ in routed for i in row]
        weights = [w for _, row, _ in routed for w in row]
        error = math.fsum((f32(w) - w) ** 2 for w in weights) / math.fsum(w * w for w in weights)
        params = {"k": k, "scoring": scoring, "order": order, "renormalize": True, "scale": 2.5,
                  "groups": groups, "groups_kept": kept, "group_score": "max"}
        tensors = {"in.logits": ("F32", [n, e], "f", [v for row in logits for v in row])}
        if biased:
            tensors["in.bias"] = ("F32", [e], "f", bias)
        tensors["out.weights"] = ("F64", [n, k], "d", weights)
        tensors["out.ids"] = ("U32", [n, k], "I", ids)
        metadata = {"op": "router_topk", "dtype": "f32", "params": json.dumps(params), "limit.ids": "exact",
                    "limit.weights": repr(1e-11 + 2 * error), "source": "tools/generate/golden-router-max.py"}
        write(os.path.join(folder, name + ".safetensors"), tensors, metadata)


main(sys.argv[1])
