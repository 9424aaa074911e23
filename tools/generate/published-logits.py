#!/usr/bin/env python3
"""Makes small models of the published configurations and the logits that `transformers` computes from them.

    python3 tools/generate/published-logits.py FOLDER

Reads tests/data/configs.json and writes FOLDER/published.json. Only extents of a configuration change. No weights are stored: each value
follows from its tensor's name and its position (`values`), and tests/models/published.rs computes the same. Logits are those of float64
with plain attention, from a folder that `from_pretrained` has read. Needs the packages torch, transformers and safetensors;
tools/generate/fixtures.sh installs them.
"""

import importlib
import json
import math
import os
import sys
import tempfile

import numpy as np
import torch
import transformers as tf
from safetensors import safe_open
from safetensors.numpy import save_file

VOCABULARY, TOKENS = 64, [3, 17, 60, 2, 41, 41, 9, 33, 28, 5, 50, 12]
POSITIONS = [3, len(TOKENS) - 1]
# E2M1, of which the upper bit is the sign.
FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])

in_float64 = importlib.import_module("family-fixture").in_float64


def small(config):
    """The extents of a small model with this configuration."""
    kind = config["model_type"]
    layers = {"qwen3_next": 4, "gemma3_text": 6, "gemma3": 6}.get(kind, 2)
    grouped = config["num_key_value_heads"] < config["num_attention_heads"]
    own = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": 2 if grouped else 4,
    }
    if config.get("head_dim") and kind != "deepseek_v3":
        own["head_dim"] = 16 if config["head_dim"] * config["num_attention_heads"] == config["hidden_size"] else 24
    if "layer_types" in config:
        own["layer_types"] = config["layer_types"][:layers]
    if config.get("sliding_window") and config.get("use_sliding_window") is not False:
        own |= {name: 5 for name in ("sliding_window", "sliding_window_size") if name in config}
    experts = {
        "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 3, "experts_per_token": 3,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "first_k_dense_replace": 1, "kv_lora_rank": 32,
        "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "linear_key_head_dim": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 16,
    }
    if config.get("n_group", 1) > 1:
        experts |= {"n_group": 4, "topk_group": 2}
    own |= {name: value for name, value in experts.items() if config.get(name)}
    for factors in ("long_factor", "short_factor"):
        if factors in (config.get("rope_scaling") or {}):
            count = int(16 * config.get("partial_rotary_factor", 1.0)) // 2
            own["rope_scaling." + factors] = config["rope_scaling"][factors][:count]
    return own


VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8,
          "image_size": 28, "patch_size": 14}


def extents(config):
    if "text_config" not in config:
        return small(config)
    own = {"text_config." + name: value for name, value in small(config["text_config"]).items()}
    return own | {"vision_config." + name: value for name, value in VISION.items()}


def with_extents(config, own):
    config = json.loads(json.dumps(config))
    for path, value in own.items():
        *parents, name = path.split(".")
        at = config
        for parent in parents:
            at = at[parent]
        at[name] = value
    return config


def noise(name, count):
    """Integers of 64 bits: SplitMix64, seeded with the FNV-1a hash of a name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def values(name, shape):
    """A tensor's values, which f32 represents exactly, of a size that keeps every part of a model visible."""
    bits = noise(name, math.prod(shape))
    if name.endswith("_blocks"):
        return (bits >> np.uint64(56)).astype(np.uint8).reshape(shape)
    if name.endswith("_scales"):
        return (np.uint64(121) + (bits >> np.uint64(62))).astype(np.uint8).reshape(shape)
    even = (bits >> np.uint64(53)).astype(np.float64) / 1024 - 1  # 11 bits in [-1, 1)
    if "embed" in name:
        scaled = even
    elif name.endswith("A_log"):
        scaled = even - 1.5
    elif name.endswith("sinks"):
        scaled = even
    elif len(shape) > 1:
        scaled = even * 1.5 * 0.5 ** (math.frexp(shape[-1])[1] // 2 - 1)
    elif "norm" in name and name.endswith("weight"):
        scaled = 1 + even / 4
    else:
        scaled = even / 4
    return scaled.astype(np.float32).reshape(shape)


def in_blocks(shapes):
    """Shapes of experts as OpenAI publishes them: blocks of 32 values in MXFP4 along the inputs, and their exponents."""
    for name, shape in shapes.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, inputs, outputs = shape
            yield name + "_blocks", [experts, outputs, inputs // 32, 16]
            yield name + "_scales", [experts, outputs, inputs // 32]
        else:
            yield name, shape


def from_blocks(tensors):
    """The same in f32, because `transformers` reads blocks on GPUs only."""
    for name in [name for name in tensors if name.endswith("_blocks")]:
        blocks, scales = tensors.pop(name), tensors.pop(name.replace("_blocks", "_scales"))
        pairs = FP4[np.stack([blocks & 15, blocks >> 4], -1)]
        rows = pairs.reshape(*scales.shape, 32) * 2.0 ** (scales.astype(np.float64) - 127)[..., None]
        tensors[name[: -len("_blocks")]] = np.ascontiguousarray(rows.reshape(*scales.shape[:2], -1).swapaxes(1, 2).astype(np.float32))


def for_transformers(config):
    """What it reads: a padding token inside the vocabulary, no quantization, `su` under its later name, and the head of Mistral
    Small, which has its own; the option is not in its file, and the default is another in later releases."""
    config = {name: value for name, value in config.items() if name != "quantization_config"}
    if (config.get("rope_scaling") or {}).get("type") == "su":
        config["rope_scaling"] = config["rope_scaling"] | {"type": "longrope"}
    if config["model_type"] == "mistral3":
        config["tie_word_embeddings"] = False
    return config | ({"pad_token_id": None} if "pad_token_id" in config else {})


def class_of(config):
    names = {"mistral": "MistralForCausalLM"}  # of configurations that do not name it
    return getattr(tf, config.get("architectures", [names.get(config["model_type"])])[0])


def model(config, folder, blocks):
    """The shapes of the tensors in a published folder with this configuration, and the logits."""
    made = class_of(config)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(for_transformers(config), file)
    made._from_config(tf.AutoConfig.from_pretrained(folder)).save_pretrained(f"{folder}/shapes")
    with safe_open(f"{folder}/shapes/model.safetensors", "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
    if blocks:
        shapes = dict(in_blocks(shapes))
    tensors = {name: values(name, shape) for name, shape in shapes.items()}
    from_blocks(tensors)
    # In f64, because `in_float64` also changes the type that f32 is read as.
    doubles = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    save_file(doubles, f"{folder}/model.safetensors", metadata={"format": "pt"})
    with torch.no_grad(), in_float64():
        options = {"experts_implementation": "eager"} if any("experts" in name for name in shapes) else {}
        read, about = made.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", output_loading_info=True, **options)
        assert not any(about[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), about
        logits = read.eval()(torch.tensor([TOKENS])).logits[0].double()
    return shapes, [[float(f"{v:.7g}") for v in logits[at]] for at in POSITIONS]


def main():
    folder = sys.argv[1]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/data/configs.json")) as file:
        published = json.load(file)
    shapes, models = [], []
    for entry in published:
        own = extents(entry["config"])
        config = with_extents(entry["config"], own)
        with tempfile.TemporaryDirectory() as to:
            found, logits = model(config, to, entry["config"].get("quantization_config", {}).get("quant_method") == "mxfp4")
        found = [[name, *shape] for name, shape in found.items()]
        if found not in shapes:
            shapes.append(found)
        models.append({"model": entry["model"], "extents": own, "shapes": shapes.index(found), "logits": logits})
        print(f"{entry['model']}: {len(found)} tensors, largest logit {max(map(abs, logits[-1])):.3g}")
    about = {"source": f"transformers {tf.__version__} in float64", "tokens": TOKENS, "positions": POSITIONS}
    with open(f"{folder}/published.json", "w") as file:
        file.write(json.dumps(about)[:-1] + ',\n"shapes": [\n')
        file.write(",\n".join(json.dumps(each, separators=(",", ":")) for each in shapes) + '\n],\n"models": [\n')
        file.write(",\n".join(json.dumps(each, separators=(",", ":")) for each in models) + "\n]}\n")


if __name__ == "__main__":
    main()
