"""Writes golden cases of the formats that are only read into tests/golden-formats; their values come from the package `gguf`.

    pip install gguf numpy
    python3 tools/generate/golden-formats.py      from the root of the repository

The same package gives the same bytes. Blocks are random bits. Their scales are of ordinary size, of either sign; dequantize also
has scales that are zero, subnormal and large.
"""
import json
import os
import struct

import gguf
import numpy as np
from gguf.quants import dequantize

FOLDER = "tests/golden-formats"
FORMATS = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
STORED = {"uint8": "U8", "uint32": "U32", "float16": "F16", "float32": "F32", "float64": "F64"}


def write(name, op, dtype, form, limit, tensors):
    """One case as a safetensors file, with keys in a fixed order."""
    metadata = {"dtype": dtype, "limit.y": limit, "op": op, "params": json.dumps({"format": form}),
                "source": "gguf " + gguf.__dict__.get("__version__", "0.19.0")}
    header, data = {"__metadata__": metadata}, b""
    for key, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[key] = {"dtype": STORED[str(array.dtype)], "shape": list(array.shape),
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(FOLDER, name + ".safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def blocks(random, kind, rows, count, scales=None):
    """Rows of blocks; the scale is the first f16 of each."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (rows * count, size), dtype=np.uint8)
    if scales is None:
        scales = (random.uniform(0.01, 0.05, rows * count) * random.choice([-1, 1], rows * count)).astype(np.float16)
    raw[:, :2] = np.resize(scales, rows * count).view(np.uint8).reshape(-1, 2)
    values = dequantize(raw, kind).reshape(rows, count * length)
    return raw.reshape(rows, count * size), values.astype(np.float64)


os.makedirs(FOLDER, exist_ok=True)
number = 2001
for form in FORMATS:
    kind, name = gguf.GGMLQuantizationType[form], form.lower()
    random = np.random.default_rng(number)
    scales = np.array([0.0, -0.0, 6e-8, -1e-6, 60000.0, -1.0, 0.5, 3e-5], dtype=np.float16)
    for given in (None, scales):
        raw, values = blocks(random, kind, 4, 2, given)
        suffix = "" if given is None else "-scales"
        write(f"{number}-dequantize-f32-{name}{suffix}", "dequantize", "f32", name, "exact",
              {"in.x": raw, "out.y": values})
        number += 1
    raw, values = blocks(random, kind, 7, 2)
    ids = np.array([6, 0, 3, 3, 0xffffffff], dtype=np.uint32)
    rows = np.array([values[i] if i < 7 else np.zeros(512) for i in ids])
    write(f"{number}-qembedding-f32-{name}", "qembedding", "f32", name, "1e-11",
          {"in.table": raw, "in.ids": ids, "out.y": rows})
    number += 1
    for dtype, m, base in (("float32", 3, 5e-4), ("float16", 20, 5e-4)):
        raw, values = blocks(random, kind, 17, 2)
        x = random.standard_normal((m, 512)).astype(dtype)
        y = x.astype(np.float64) @ values.T
        rounded = y.astype(dtype).astype(np.float64)
        limit = base + 2 * ((rounded - y) ** 2).sum() / (y ** 2).sum()
        write(f"{number}-qlinear-{'f32' if dtype == 'float32' else 'f16'}-{name}", "qlinear",
              "f32" if dtype == "float32" else "f16", name, repr(float(limit)),
              {"in.x": x, "in.weight": raw, "out.y": y})
        number += 1
print(number - 2001, "cases")
