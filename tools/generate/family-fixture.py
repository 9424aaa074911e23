#!/usr/bin/env python3
"""Makes small models of random weights and the numbers that a correct program computes from them.

    python3 tools/generate/family-fixture.py FOLDER [FAMILY ..]
    python3 tools/generate/family-fixture.py --folders FOLDER [FAMILY ..]

For each family, FOLDER/FAMILY-f16.gguf and FOLDER/FAMILY-f16.json, in the format of tests/data/families/README.md. The numbers are
those of the package `transformers` in float64 with plain attention, from the weights that the file holds. The tokenizer is that of
single bytes, for the models say nothing sensible. Needs the packages torch, transformers and gguf; tools/generate/fixtures.sh installs them and
makes everything.

With --folders, FOLDER/FAMILY is a folder as `save_pretrained` writes it, with its numbers in expected.json: what models on the
Hugging Face Hub look like. Two of them have tokenizers.
"""

import contextlib
import json
import sys

import gguf
import numpy as np
import safetensors.torch  # noqa: F401  before `in_float64`, which must not change its table of types
import torch
import transformers as tf

VOCABULARY, CONTEXT = 272, 512
PROMPTS = [1, 7, 16, 25, 41, 60]


@contextlib.contextmanager
def in_float64():
    """Makes float64 of the places where a model asks for float32, such as norms, angles and states."""
    dtype, method = torch.float32, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32 = torch.float = dtype
        torch.Tensor.float = method


COMMON = dict(
    vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, bos_token_id=0, eos_token_id=1, pad_token_id=None,
)
EXACT = {"attn_implementation": "eager"}

# Names of tensors: ours, theirs.
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
ATTENTION = {f"attn_{part}": f"self_attn.{part}_proj" for part in "qkv"} | {"attn_output": "self_attn.o_proj"}
GATED = {f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
SANDWICH = {
    "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
}


def heads(meta, config, eps="layer_norm_rms_epsilon"):
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    meta.update({
        "context_length": CONTEXT, "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size, "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads, "attention.key_length": head, "attention.value_length": head,
    })
    value = getattr(config, "rms_norm_eps", None) or getattr(config, "layer_norm_eps", None) or config.norm_epsilon
    meta["attention." + eps] = float(value)
    if config.rope_parameters["rope_theta"] != 10000.0:  # which is what a file without the key means
        meta["rope.freq_base"] = float(config.rope_parameters["rope_theta"])
    return meta


def interleaved(weight, count):
    """Rows of a head from halves to pairs, as files of the llama family have them."""
    rows, rest = weight.shape[0], weight.shape[1:]
    return weight.reshape(count, 2, rows // count // 2, *rest).swapaxes(1, 2).reshape(rows, *rest)


def mixtral():
    config = tf.MixtralConfig(**COMMON | {"intermediate_size": 48}, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)
    model = tf.MixtralForCausalLM._from_config(config, **EXACT, experts_implementation="eager")
    meta = heads({"expert_count": 4, "expert_used_count": 2}, config)
    return model, "llama", meta, NORMS | ATTENTION | {"ffn_gate_inp": "mlp.gate"}


def mistral():
    config = tf.MistralConfig(**COMMON, head_dim=32, sliding_window=16)
    model = tf.MistralForCausalLM._from_config(config, **EXACT)
    meta = heads({"attention.sliding_window": 16}, config)
    return model, "llama", meta, NORMS | ATTENTION | GATED


def qwen2():
    config = tf.Qwen2Config(**COMMON, use_sliding_window=False, tie_word_embeddings=True)
    model = tf.Qwen2ForCausalLM._from_config(config, **EXACT)
    return model, "qwen2", heads({}, config), NORMS | ATTENTION | GATED


def gemma():
    config = tf.GemmaConfig(**COMMON | {"num_hidden_layers": 2, "intermediate_size": 56}, head_dim=24)
    return tf.GemmaForCausalLM._from_config(config, **EXACT), "gemma", heads({}, config), NORMS | ATTENTION | GATED


def gemma2():
    config = tf.Gemma2Config(**COMMON | {"num_hidden_layers": 4, "intermediate_size": 56}, head_dim=24, query_pre_attn_scalar=24,
                             sliding_window=16, attn_logit_softcapping=20.0, final_logit_softcapping=10.0)
    model = tf.Gemma2ForCausalLM._from_config(config, **EXACT)
    meta = heads({"attention.sliding_window": 16, "attn_logit_softcapping": 20.0, "final_logit_softcapping": 10.0}, config)
    return model, "gemma2", meta, SANDWICH | ATTENTION | GATED


def phi3():
    config = tf.Phi3Config(**COMMON, sliding_window=24)
    model = tf.Phi3ForCausalLM._from_config(config, **EXACT)
    meta = heads({"attention.sliding_window": 24}, config)
    names = NORMS | {"attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "ffn_up": "mlp.gate_up_proj",
                     "ffn_down": "mlp.down_proj"}
    return model, "phi3", meta, names


def starcoder2():
    config = tf.Starcoder2Config(**COMMON, sliding_window=None, use_bias=True, hidden_act="gelu_pytorch_tanh",
                                 residual_dropout=0.0, embedding_dropout=0.0)
    model = tf.Starcoder2ForCausalLM._from_config(config, **EXACT)
    meta = heads({}, config, "layer_norm_epsilon")
    return model, "starcoder2", meta, NORMS | ATTENTION | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def stablelm(parallel=False):
    heads_of_32 = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = tf.StableLmConfig(**COMMON | heads_of_32, use_parallel_residual=parallel, partial_rotary_factor=0.25, use_qkv_bias=True)
    model = tf.StableLmForCausalLM._from_config(config, **EXACT)
    meta = heads({"use_parallel_residual": parallel, "rope.dimension_count": 8}, config, "layer_norm_epsilon")
    norms = {"attn_norm": "input_layernorm"} if parallel else NORMS
    return model, "stablelm", meta, norms | ATTENTION | GATED


def gpt_oss():
    yarn = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
                beta_slow=1.0, truncate=False)
    sizes = COMMON | {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
    config = tf.GptOssConfig(**sizes, head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=12,
                             rope_parameters=yarn)
    model = tf.GptOssForCausalLM._from_config(config, **EXACT, experts_implementation="eager")
    meta = heads({
        "attention.sliding_window": 12, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128,
    }, config)
    names = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
    return model, "gpt-oss", meta, names | ATTENTION


def deepseek(kind, **own):
    """The latent form of attention: the matrices that expand keys and values are given per head, that of keys transposed."""
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128, mscale=own.pop("mscale"))
    yarn["mscale_all_dim"] = yarn["mscale"]
    sizes = COMMON | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_key_value_heads": 4}
    config = getattr(tf, f"Deepseek{kind}Config")(
        **sizes, **own, rope_parameters=yarn, kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=16,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, first_k_dense_replace=1)
    model = getattr(tf, f"Deepseek{kind}ForCausalLM")._from_config(config, **EXACT, experts_implementation="eager")
    meta = heads({
        "leading_dense_block_count": 1, "attention.kv_lora_rank": 32, "attention.key_length_mla": 40,
        "attention.value_length_mla": 16, "rope.dimension_count": 16, "expert_count": 8, "expert_used_count": 3,
        "expert_feed_forward_length": 16, "expert_shared_count": config.n_shared_experts,
        "expert_weights_scale": config.routed_scaling_factor, "expert_group_count": config.n_group,
        "expert_group_used_count": config.topk_group, "expert_gating_func": 2 if kind == "V3" else 1,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128,
        "rope.scaling.yarn_log_multiplier": 0.1 * yarn["mscale_all_dim"],
    }, config)
    meta |= {"attention.head_count_kv": 1, "attention.key_length": 48, "attention.value_length": 32}
    if kind == "V3":
        meta["expert_weights_norm"] = True
    names = {"attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm",
             "attn_output": "self_attn.o_proj", "ffn_gate_inp": "mlp.gate"}
    names |= {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")}
    if config.q_lora_rank:
        meta["attention.q_lora_rank"] = config.q_lora_rank
        names |= {"attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj"}
    else:
        names["attn_q"] = "self_attn.q_proj"
    return model, "deepseek2", meta, NORMS | GATED | names


def deepseek_v2():
    return deepseek("V2", q_lora_rank=None, n_shared_experts=2, n_group=4, topk_group=2, topk_method="group_limited_greedy",
                    routed_scaling_factor=2.0, norm_topk_prob=False, mscale=0.7)


def deepseek_v3():
    return deepseek("V3", q_lora_rank=24, n_shared_experts=1, n_group=2, topk_group=1, routed_scaling_factor=2.5,
                    norm_topk_prob=True, mscale=1.0)


def qwen3next():
    sizes = COMMON | {"hidden_size": 32, "num_hidden_layers": 4}
    config = tf.Qwen3NextConfig(
        **sizes, head_dim=32, partial_rotary_factor=0.25, full_attention_interval=3, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=24, linear_value_head_dim=16, linear_conv_kernel_dim=4, num_experts=8,
        num_experts_per_tok=3, moe_intermediate_size=16, shared_expert_intermediate_size=24, norm_topk_prob=True)
    model = tf.Qwen3NextForCausalLM._from_config(config, **EXACT, experts_implementation="eager")
    meta = heads({
        "rope.dimension_count": 8, "full_attention_interval": 3, "expert_count": 8, "expert_used_count": 3,
        "expert_feed_forward_length": 16, "expert_shared_feed_forward_length": 24, "ssm.conv_kernel": 4, "ssm.state_size": 24,
        "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 64,
    }, config)
    names = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm", "ssm_ba": "linear_attn.in_proj_ba", "ssm_norm": "linear_attn.norm",
             "ssm_out": "linear_attn.out_proj", "ffn_gate_inp": "mlp.gate"}
    names |= {f"ffn_{part}_shexp": f"mlp.shared_expert.{part}_proj" for part in ("gate", "up", "down")}
    return model, "qwen3next", meta, ATTENTION | names


def phi3_long():
    """Prompts stay on one side of the original context with what follows them: a model switches its frequencies beyond it."""
    random = np.random.default_rng(5)
    factors = {name: [float(f"{f:.3g}") for f in np.sort(random.uniform(1.0, most, 8))]
               for name, most in (("short_factor", 1.5), ("long_factor", 12.0))}
    scaling = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=48, **factors)
    config = tf.Phi3Config(**COMMON, sliding_window=None, original_max_position_embeddings=48, rope_parameters=scaling)
    model = tf.Phi3ForCausalLM._from_config(config, **EXACT)
    factor = (1 + np.log(CONTEXT / 48) / np.log(48)) ** 0.5
    meta = heads({"rope.dimension_count": 16, "rope.scaling.original_context_length": 48, "rope.scaling.attn_factor": float(factor)},
                 config)
    names = NORMS | {"attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "ffn_up": "mlp.gate_up_proj",
                     "ffn_down": "mlp.down_proj"}
    return model, "phi3", meta, names


FAMILIES = {
    "qwen3next": qwen3next, "phi3-long": phi3_long,
    "gpt-oss": gpt_oss, "deepseek-v2": deepseek_v2, "deepseek-v3": deepseek_v3, "mixtral": mixtral,
    "mistral": mistral, "qwen2": qwen2, "gemma": gemma, "gemma2": gemma2, "phi3": phi3, "starcoder2": starcoder2,
    "stablelm": stablelm, "stablelm-parallel": lambda: stablelm(True),
}


# Lengths of a model's prompts, if they differ from the usual ones.
LENGTHS = {"phi3-long": [1, 60, 7, 50, 16, 70], "phi3_long": [1, 9, 50]}


def randomize(model, seed):
    """Weights of a size that keeps every part visible, and that f16 represents exactly."""
    generator = torch.Generator().manual_seed(seed)
    gemma = "Gemma" in type(model).__name__
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if "embed" in name and p.dim() >= 2:
                # Gemma multiplies them with the root of the width, and would repeat its last token if they were larger.
                values = noise * (p.shape[-1] ** -0.5 if gemma else 1.0)
            elif p.dim() >= 2:
                values = noise * (1.6 / p.shape[-1] ** 0.5)
            elif "norm" in name and name.endswith("weight"):
                centred = gemma or "Next" in type(model).__name__
                values = (0.0 if centred and "linear_attn" not in name else 1.0) + 0.2 * noise
            else:
                values = 0.2 * noise
            if "A_log" in name:
                values = noise - 1.5  # a memory of several tokens
            if "sinks" in name:
                values = noise
            if "experts.gate_up_proj" in name and "GptOss" in type(model).__name__:
                values = 3 * values  # which reaches the limit
            if type(model).__name__ == "GptOssForCausalLM" and "experts." in name and p.dim() == 3:
                values = torch.from_numpy(in_blocks(values.numpy())[1])
            p.copy_(values.to(torch.float16).to(p.dtype))
        for name, p in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                values = 0.2 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.copy_(values.to(torch.float16).to(p.dtype))


def in_blocks(values):
    """Matrices of GPT-OSS, of which columns are the outputs, in blocks of MXFP4 along their inputs: bytes and values."""
    rows = np.ascontiguousarray(values.swapaxes(1, 2), dtype=np.float32)
    blocks = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.MXFP4)
    back = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.MXFP4)
    return blocks, np.ascontiguousarray(back.swapaxes(1, 2), dtype=np.float64)


def tensors(model, arch, names):
    """Pairs of a file's tensor name and values."""
    state = {name: p.detach().to(torch.float64).numpy() for name, p in model.state_dict().items()}
    plus = 1.0 if arch.startswith("gemma") or arch == "qwen3next" else 0.0
    count = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    yield "token_embd.weight", state["model.embed_tokens.weight"]
    if not model.config.tie_word_embeddings:
        yield "output.weight", state["lm_head.weight"]
    pairs = [("output_norm", "model.norm")]
    for i in range(model.config.num_hidden_layers):
        pairs += [(f"blk.{i}.{ours}", f"model.layers.{i}.{theirs}") for ours, theirs in names.items()]
        experts = f"model.layers.{i}.mlp.experts."
        if arch == "qwen3next":
            yield from linear_attention(state, i, model.config)
        for name in ("long_factor", "short_factor") if i == 0 else ():
            if name in model.config.rope_parameters:
                yield f"rope_factors_{name[:-7]}.weight", np.array(model.config.rope_parameters[name])
        if f"model.layers.{i}.self_attn.sinks" in state:
            yield f"blk.{i}.attn_sinks.weight", state[f"model.layers.{i}.self_attn.sinks"]
        if f"model.layers.{i}.mlp.gate.e_score_correction_bias" in state:
            yield f"blk.{i}.exp_probs_b.bias", state[f"model.layers.{i}.mlp.gate.e_score_correction_bias"]
        if arch == "deepseek2":
            nope, value = model.config.qk_nope_head_dim, model.config.v_head_dim
            both = state[f"model.layers.{i}.self_attn.kv_b_proj.weight"].reshape(-1, nope + value, model.config.kv_lora_rank)
            yield f"blk.{i}.attn_k_b.weight", both[:, :nope].swapaxes(1, 2)
            yield f"blk.{i}.attn_v_b.weight", both[:, nope:]
        if arch == "gpt-oss":
            for part, values in (("gate", "gate_up_proj"), ("up", "gate_up_proj"), ("down", "down_proj")):
                own = {"gate": np.s_[..., ::2], "up": np.s_[..., 1::2], "down": np.s_[...]}[part]
                yield f"blk.{i}.ffn_{part}_exps.weight", state[experts + values][own].swapaxes(1, 2)
                yield f"blk.{i}.ffn_{part}_exps.bias", state[experts + values + "_bias"][own]
        elif experts + "gate_up_proj" in state:
            both = state[experts + "gate_up_proj"]
            half = both.shape[1] // 2
            yield f"blk.{i}.ffn_gate_exps.weight", both[:, :half]
            yield f"blk.{i}.ffn_up_exps.weight", both[:, half:]
            yield f"blk.{i}.ffn_down_exps.weight", state[experts + "down_proj"]
    for ours, theirs in pairs:
        part = ours.rsplit(".", 1)[-1]
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" in state:
                value = state[f"{theirs}.{kind}"]
                if arch == "llama" and part in count:
                    value = interleaved(value, count[part])
                plain = kind == "bias" or "norm" not in part or part == "ssm_norm"
                yield f"{ours}.{kind}", value if plain else value + plus


def linear_attention(state, i, config):
    """Tensors that files have in another form: queries, keys, values and gates of each key head become two matrices."""
    theirs, heads = f"model.layers.{i}.linear_attn.", config.linear_num_key_heads
    yield f"blk.{i}.ffn_gate_inp_shexp.weight", state[f"model.layers.{i}.mlp.shared_expert_gate.weight"][0]
    if theirs + "in_proj_qkvz.weight" not in state:
        return
    key, value = config.linear_key_head_dim, config.linear_num_value_heads // heads * config.linear_value_head_dim
    mixed = state[theirs + "in_proj_qkvz.weight"].reshape(heads, -1, config.hidden_size)
    q, k, v, z = (part.reshape(-1, config.hidden_size) for part in np.split(mixed, [key, 2 * key, 2 * key + value], 1))
    yield f"blk.{i}.attn_qkv.weight", np.concatenate([q, k, v])
    yield f"blk.{i}.attn_gate.weight", z
    yield f"blk.{i}.ssm_conv1d.weight", state[theirs + "conv1d.weight"][:, 0]
    yield f"blk.{i}.ssm_dt.bias", state[theirs + "dt_bias"]
    yield f"blk.{i}.ssm_a", -np.exp(state[theirs + "A_log"])


def write(path, arch, meta, pairs, name, blocks=False):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(f"tiny-random-{name}")
    for key, value in meta.items():
        key = f"{arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_uint32(key, value)
    # Bytes in the byte-level alphabet, one merged token, then tokens that occur in no text.
    shown = [i for r in ((33, 127), (161, 173), (174, 256)) for i in range(*r)]
    alphabet = {b: chr(b) for b in shown} | {b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in shown)}
    tokens = ["<s>", "</s>"] + [alphabet[b] for b in range(256)] + ["ab"]
    tokens += [f"<unused{i}>" for i in range(VOCABULARY - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * 257 + [5] * (VOCABULARY - 259))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    for tensor, value in pairs:
        value = np.ascontiguousarray(value)
        vector = value.ndim == 1 or "ffn_gate_inp" in tensor or "conv1d" in tensor or tensor.endswith("bias")
        if blocks and tensor.endswith("_exps.weight"):
            kind = gguf.GGMLQuantizationType.MXFP4
            writer.add_tensor(tensor, gguf.quants.quantize(value.astype(np.float32), kind), raw_dtype=kind)
            continue
        writer.add_tensor(tensor, value.astype(np.float32 if vector else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def numbers(model, seed, lengths=PROMPTS, following=32):
    """Logits at every position of the prompts and of what follows them."""
    random = np.random.default_rng(seed)
    prompts = [random.integers(2, model.config.get_text_config().vocab_size, n).tolist() for n in lengths]
    out = {"prompts": prompts, "top1": [], "last_logits": [], "greedy": [], "margins": []}
    with torch.no_grad(), in_float64():
        run = lambda ids: model(torch.tensor([ids])).logits[0].double()
        for prompt in prompts:
            logits, ids, margin = run(prompt), list(prompt), []
            out["top1"].append(logits.argmax(-1).tolist())
            out["last_logits"].append([float(f"{v:.6g}") for v in logits[-1]])
            for _ in range(following):
                best = logits.topk(2, -1).values
                margin.append(((best[:, 0] - best[:, 1]) / logits.abs().amax(-1)).min().item())
                ids.append(logits[-1].argmax().item())
                logits = run(ids)
            out["greedy"].append(ids[len(prompt):])
            out["margins"].append(float(f"{min(margin):.4g}"))
    out["min_margin"] = min(out["margins"])
    return out


SMALL = dict(
    vocab_size=320, max_position_embeddings=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, bos_token_id=0, eos_token_id=1, pad_token_id=None,
)
EXPERTS = dict(num_experts_per_tok=2, experts_implementation="eager")
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
MSCALE = YARN | dict(mscale=0.7, mscale_all_dim=0.7)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=8,
              moe_intermediate_size=24, first_k_dense_replace=1, topk_group=1, rope_parameters=MSCALE, **EXPERTS)
LINEAR = dict(rope_type="linear", rope_theta=1e6, factor=8.0)

# Class names of transformers, and differences from SMALL.
FOLDERS = {
    "llama": ("Llama", dict(rope_parameters=LLAMA3, attention_bias=True, hidden_size=48, intermediate_size=72)),
    "mistral": ("Mistral", dict(sliding_window=8, head_dim=24)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, intermediate_size=48, sliding_window=None, **EXPERTS)),
    "qwen2": ("Qwen2", dict(use_sliding_window=False, tie_word_embeddings=True)),
    "qwen3": ("Qwen3", dict(rope_parameters=YARN, head_dim=24)),
    "qwen3moe": ("Qwen3Moe", dict(num_experts=4, moe_intermediate_size=48, norm_topk_prob=True, head_dim=16, **EXPERTS)),
    "gemma2": ("Gemma2", dict(head_dim=24, query_pre_attn_scalar=16, sliding_window=8, attn_logit_softcapping=20.0,
                              final_logit_softcapping=10.0)),
    "gemma3": ("Gemma3", dict(num_hidden_layers=6, intermediate_size=32, head_dim=16, query_pre_attn_scalar=24, sliding_window=8,
                              rope_parameters=dict(full_attention=LINEAR, sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    "phi3": ("Phi3", dict(sliding_window=12, partial_rotary_factor=0.5)),
    "starcoder2": ("Starcoder2", dict(sliding_window=None, use_bias=True, hidden_act="gelu_pytorch_tanh", residual_dropout=0.0,
                                      embedding_dropout=0.0)),
    "phi3_long": ("Phi3", dict(sliding_window=None, partial_rotary_factor=0.75, original_max_position_embeddings=40, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, partial_rotary_factor=0.75, original_max_position_embeddings=40,
        short_factor=[1.0, 1.05, 1.1, 1.2, 1.25, 1.3], long_factor=[1.1, 1.5, 2.25, 3.0, 3.25, 4.0]))),
    "gpt_oss": ("GptOss", dict(num_local_experts=4, intermediate_size=32, sliding_window=8, head_dim=24, rope_parameters=YARN | dict(truncate=False), **EXPERTS)),
    "qwen3_next": ("Qwen3Next", dict(
        num_hidden_layers=3, full_attention_interval=2, head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=12, linear_value_head_dim=16, num_experts=4, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, **EXPERTS)),
    "deepseek_v2": ("DeepseekV2", dict(q_lora_rank=None, n_shared_experts=2, n_group=4, topk_method="group_limited_greedy",
                                       routed_scaling_factor=2.0, norm_topk_prob=False, **LATENT)),
    "deepseek_v3": ("DeepseekV3", dict(q_lora_rank=20, n_shared_experts=1, n_group=2, **LATENT)),
    "stablelm": ("StableLm", dict(use_parallel_residual=False, partial_rotary_factor=0.25, use_qkv_bias=True)),
    "gemma": ("Gemma", dict(head_dim=24)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=5, hidden_size=48, intermediate_size=72)),
    "seed_oss": ("SeedOss", dict(head_dim=24)),
    "glm4": ("Glm4", dict(head_dim=24, attention_bias=True)),
    "ministral3": ("Ministral3", dict(head_dim=24, sliding_window=None, rope_parameters=YARN | dict(
        mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, beta_fast=32.0, beta_slow=1.0))),
}


VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)


def with_images(kind, text, vision, **own):
    """A model with images, of which only the part for text is used."""
    config = getattr(tf, kind + "Config")(text_config=text.to_dict(), vision_config=vision.to_dict(), **own)
    return getattr(tf, kind + "ForConditionalGeneration")._from_config(config, **EXACT)


# Multimodal models.
IMAGES = {
    "gemma3_images": lambda: with_images(
        "Gemma3", tf.Gemma3TextConfig(**SMALL | FOLDERS["gemma3"][1]), tf.SiglipVisionConfig(**VISION), mm_tokens_per_image=4,
        tie_word_embeddings=True),
    "mistral3": lambda: with_images(
        "Mistral3", tf.MistralConfig(**SMALL, head_dim=24, sliding_window=None), tf.PixtralVisionConfig(**VISION),
        tie_word_embeddings=False),
}


def folder_model(name):
    if name in IMAGES:
        return IMAGES[name]()
    kind, own = FOLDERS[name]
    options = {key: own[key] for key in own if key == "experts_implementation"}
    own = {key: value for key, value in own.items() if key not in options}
    config = getattr(tf, kind + ("TextConfig" if name == "gemma3" else "Config"))(**SMALL | own)
    return getattr(tf, kind + "ForCausalLM")._from_config(config, **EXACT, **options)


CHAT = """{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message.content.strip() }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
TEXTS = ["hello world", " Hello,  it's 1234 o'clock\n\n\tnow", "naive cafe\u0301 \u00e9 \u4f60\u597d <|end|> x", ""]


def byte_level():
    """A byte-level tokenizer with word rules, trained on next to nothing, whose post-processor adds the first token."""
    import tokenizers as tk
    special = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
    pattern = tk.Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    made = tk.Tokenizer(tk.models.BPE())
    made.pre_tokenizer = tk.pre_tokenizers.Sequence([
        tk.pre_tokenizers.Split(pattern, "isolated"), tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False,
                                     initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(["hello world hello there, it's the world's clock, here and now"] * 4, trainer)
    made.post_processor = tk.processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return made, {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "<|end|>", "special": True}, "chat_template": CHAT}


def sentence_piece():
    """A tokenizer of characters with byte fallback, as converted from SentencePiece."""
    import tokenizers as tk
    tokens = ["<s>", "</s>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581"] + list("abcdehilmnorstuvw'")
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("\u2581", "hello"), ("o", "r")]
    tokens += ["".join(pair) for pair in merges] + ["<|user|>", "<|end|>"]
    model = tk.models.BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    made = tk.Tokenizer(model)
    made.add_special_tokens(["<s>", "</s>", "<unk>", "<|user|>", "<|end|>"])
    made.normalizer = tk.normalizers.Sequence([tk.normalizers.Prepend("\u2581"), tk.normalizers.Replace(" ", "\u2581")])
    made.decoder = tk.decoders.Sequence([tk.decoders.Replace("\u2581", " "), tk.decoders.ByteFallback(), tk.decoders.Fuse(),
                                         tk.decoders.Strip(" ", 1, 0)])
    made.post_processor = tk.processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return made, {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}


def folders(folder, chosen):
    import os
    for name in chosen or FOLDERS | IMAGES:
        for seed in range(40):
            with in_float64():
                model = folder_model(name)
            model = model.double().eval()
            randomize(model, seed)
            found = numbers(model, seed, LENGTHS.get(name, [1, 9, 30]), 16)
            if found["min_margin"] > 5e-4:
                break
        to = f"{folder}/{name}"
        # Weights are exact in f16; one folder holds them in f32 and in two files.
        model.to(torch.float32 if name == "llama" else torch.float16).save_pretrained(
            to, max_shard_size="100KB" if name == "llama" else "1GB")
        if name == "gpt_oss":
            in_mxfp4(to, to + "-MXFP4")
        about = {"source": f"transformers {tf.__version__}, {type(model).__name__} in float64, seed {seed}"}
        make = {"llama": byte_level, "mistral": sentence_piece}.get(name)
        if make:
            made, config = make()
            made.save(f"{to}/tokenizer.json")
            with open(f"{to}/tokenizer_config.json", "w") as file:
                json.dump(config, file, indent=1)
            plain = tk_plain(made)
            about["tokenizer"] = [[text, plain.encode(text).ids] for text in TEXTS]
            fast = tf.PreTrainedTokenizerFast.from_pretrained(to)
            if fast.chat_template:
                said = [{"role": "user", "content": " hello "}]
                about["chat"] = fast.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
            about["special"] = [[text, made.encode(text, add_special_tokens=False).ids] for text in TEXTS + ["<s><|user|>hello<|end|>"]]
        with open(f"{to}/expected.json", "w") as file:
            json.dump(about | found, file, separators=(",", ":"))
        print(f"{name}: seed {seed}, smallest margin {found['min_margin']:.1e}, {sorted(os.listdir(to))}")


def in_mxfp4(folder, to):
    """A copy of a folder with its experts in blocks, which hold them exactly: as OpenAI publishes its models."""
    import os
    from safetensors.numpy import load_file, save_file
    tensors = load_file(f"{folder}/model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        blocks, _ = in_blocks(tensors.pop(name))
        blocks = blocks.reshape(*blocks.shape[:2], -1, 17)
        # Here a byte has two neighbours, in GGUF a value of the first half and one of the second.
        codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], -1)
        tensors[name + "_blocks"] = codes[..., ::2] | codes[..., 1::2] << 4
        tensors[name + "_scales"] = np.ascontiguousarray(blocks[..., 0])
    os.makedirs(to, exist_ok=True)
    save_file(tensors, f"{to}/model.safetensors", metadata={"format": "pt"})
    with open(f"{folder}/config.json") as file:
        config = json.load(file) | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    with open(f"{to}/config.json", "w") as file:
        json.dump(config, file, indent=1)


def tk_plain(made):
    """The same tokenizer, to which special tokens in a text are text."""
    import tokenizers as tk
    plain = tk.Tokenizer.from_str(made.to_str())
    plain.encode_special_tokens = True
    return plain


def main():
    torch.set_default_dtype(torch.float64)
    if sys.argv[1] == "--folders":
        return folders(sys.argv[2], sys.argv[3:])
    folder, chosen = sys.argv[1], sys.argv[2:] or list(FAMILIES)
    for name in chosen:
        # The first seed for which no two tokens are nearly equally likely anywhere.
        for seed in range(20):
            with in_float64():
                model, arch, meta, names = FAMILIES[name]()
            model = model.double().eval()
            randomize(model, seed)
            found = numbers(model, seed, LENGTHS.get(name, PROMPTS))
            if found["min_margin"] > 2e-4:
                break
        write(f"{folder}/{name}-f16.gguf", arch, meta, tensors(model, arch, names), name)
        if arch == "gpt-oss":
            # The same weights, which MXFP4 blocks represent exactly, as published models of this family have them.
            write(f"{folder}/{name}-MXFP4.gguf", arch, meta, tensors(model, arch, names), name, blocks=True)
        about = {"architecture": arch, "n_ctx": CONTEXT, "notes": f"random weights, seed {seed}",
                 "source": f"transformers {tf.__version__}, {type(model).__name__} in float64"}
        with open(f"{folder}/{name}-f16.json", "w") as file:
            json.dump(about | found, file, separators=(",", ":"))
        print(f"{name}: seed {seed}, smallest margin {found['min_margin']:.1e}")


if __name__ == "__main__":
    main()
