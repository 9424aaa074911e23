"""Writes model_facts.json: what the reference Python reader finds in the bundled model.

Usage: python3 make_model_facts.py MODEL.gguf    (needs: pip install gguf)
"""
import json, sys, zlib
from pathlib import Path
from gguf import GGUFReader

r = GGUFReader(sys.argv[1])
meta = {}
for f in r.fields.values():
    if f.name.startswith("GGUF."): continue
    v = f.contents()
    kind = [t.name for t in f.types]
    if isinstance(v, list): v = {"len": len(v), "first": v[:3], "last": v[-3:]}
    meta[f.name] = {"types": kind, "value": v}
tensors = [
    {"name": t.name, "type": t.tensor_type.name.lower(), "dims": [int(d) for d in t.shape][::-1],
     "offset": int(t.data_offset), "bytes": int(t.n_bytes), "crc32": zlib.crc32(t.data.tobytes())}
    for t in r.tensors
]
out = {"version": int(r.fields["GGUF.version"].parts[0][0]), "alignment": r.alignment, "metadata": meta, "tensors": tensors}
Path(__file__).with_name("model_facts.json").write_text(json.dumps(out, ensure_ascii=True, indent=0) + "\n")
