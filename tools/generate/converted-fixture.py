#!/usr/bin/env python3
"""Makes the small models of random weights that come in files of llama.cpp, and the numbers that a correct program computes from them.

    python3 tools/generate/converted-fixture.py LLAMA_CPP FOLDER [NAME ..]

For each model, FOLDER/NAME.gguf and FOLDER/NAME.json, in the format of tests/data/families/README.md. Weights, numbers and seeds are
made as in family-fixture.py, and the tokenizers are trained here. The files are not ours: llama.cpp's `convert_hf_to_gguf.py` writes
them from the folders that `transformers` and `sentencepiece` write, and llama.cpp quantizes. LLAMA_CPP is the folder of its sources;
they come with the package llama_cpp_python, which must be installed for the quantized file only. tools/generate/fixtures.sh installs everything.
"""

import copy
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers as tf

spec = importlib.util.spec_from_file_location("family_fixture", Path(__file__).with_name("family-fixture.py"))
family = importlib.util.module_from_spec(spec)
spec.loader.exec_module(family)

SIZES = family.COMMON | {"vocab_size": 320, "bos_token_id": 316, "eos_token_id": 317}
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=128)
MILLION = dict(rope_type="default", rope_theta=1e6)
LOCAL = dict(rope_type="default", rope_theta=1e4)


def llama(**own):
    return tf.LlamaForCausalLM, tf.LlamaConfig(**SIZES | own, rope_parameters=LLAMA3, rms_norm_eps=1e-5)


def qwen3():
    return tf.Qwen3ForCausalLM, tf.Qwen3Config(
        **SIZES | {"num_attention_heads": 6}, head_dim=32, tie_word_embeddings=True, rope_parameters=MILLION)


def qwen3moe():
    return tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
        **SIZES, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
        rope_parameters=MILLION)


def gemma3():
    sizes = SIZES | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 6}
    return tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(
        **sizes | {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}, head_dim=16, query_pre_attn_scalar=16, sliding_window=16,
        rope_parameters=dict(full_attention=MILLION, sliding_attention=LOCAL))


# How llama.cpp names the rule that cuts texts into words, and the configuration. Blocks of Q4_K have 256 values: the width of the
# quantized model is one block, and its narrower matrices become Q5_0 and Q8_0, as llama.cpp does with any model.
MODELS = {
    "llama-f16": ("llama-bpe", lambda: llama(head_dim=32)),
    "llama-Q4_K_M": ("llama-bpe", lambda: llama(hidden_size=256, head_dim=16)),
    "qwen3-f16": ("qwen2", qwen3),
    "gemma3-f16": (None, gemma3),
    "qwen3moe-f16": ("qwen2", qwen3moe),
}

CORPUS = [
    "hello there, hello world; the baker weren't late, the others were", "the loaves and the words of the world, over and over",
    "x = 14 + 12; if (x > 2024) { return x; }\n\n\tdone\n", "12 14 2024 12 14 2024 3.14 3.14 12 14 2024",
    "naïve café, naïve café", "we'll see  the   spaces and lines, we'll see", "привет привет",
]
TEXTS = [
    "Hello world", " The baker's 12 loaves weren't late!", "x = 3.14159; if (x > 10) { return 2024; }\n\n\tdone",
    "Über naïve café — привет 你好 🙂", "we'll  see   spaces\n \nand lines ", "",
]
# How many digits make a word.
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DIGITS = {"llama-bpe": "{1,3}", "qwen2": ""}
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]


def byte_level(to, rule, config):
    """Writes a byte-level tokenizer and returns what gives a text's tokens. In a llama, a token comes before them."""
    import tokenizers as tk
    made = tk.Tokenizer(tk.models.BPE(ignore_merges=rule == "llama-bpe"))
    words = tk.Regex(WORDS.replace("DIGITS", DIGITS[rule]))
    made.pre_tokenizer = tk.pre_tokenizers.Sequence([
        tk.pre_tokenizers.Split(words, "isolated"), tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(vocab_size=config.vocab_size - len(SPECIAL), show_progress=False,
                                     initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(CORPUS, trainer)
    made.add_special_tokens(SPECIAL)
    assert made.get_vocab_size() == config.vocab_size, made.get_vocab_size()
    if rule == "llama-bpe":
        made.post_processor = tk.processors.TemplateProcessing(
            single=f"{SPECIAL[0]} $A", special_tokens=[(SPECIAL[0], config.bos_token_id)])
    made.save(f"{to}/tokenizer.json")
    Path(f"{to}/tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[1]}))
    return lambda text: made.encode(text).ids


def sentence_piece(to, config):
    """Writes a tokenizer of pieces, to which unknown characters are bytes, and returns what gives a text's tokens."""
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, model_type="bpe", vocab_size=config.vocab_size, byte_fallback=True,
        pad_id=0, eos_id=1, bos_id=2, unk_id=3, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True, character_coverage=0.98, num_threads=1,
        minloglevel=2)
    Path(f"{to}/tokenizer.model").write_bytes(model.getvalue())
    Path(f"{to}/tokenizer_config.json").write_text(json.dumps({"add_bos_token": True, "add_eos_token": False}))
    made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return lambda text: [config.bos_token_id] + made.encode(text)


# The converter knows the rule of a published tokenizer by its tokens for a text. Ours is not published, so its rule is set.
CONVERT = """
import sys
sys.path.insert(0, sys.argv[1])
from conversion.base import TextModel
import convert_hf_to_gguf
rule = sys.argv[2]
TextModel.get_vocab_base_pre = lambda model, tokenizer: rule
sys.argv[1:] = sys.argv[3:]
convert_hf_to_gguf.main()
"""


def convert(llama_cpp, rule, folder, name, to):
    subprocess.run([sys.executable, "-c", CONVERT, llama_cpp, str(rule), folder, "--outtype", "f16", "--outfile", to, "--model-name", name],
                   check=True, stderr=subprocess.DEVNULL)


def quantize(path, to):
    import llama_cpp
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M, 1
    assert llama_cpp.llama_model_quantize(str(path).encode(), str(to).encode(), params) == 0, path


def take_weights(model, path):
    """Gives a llama the weights of a file, dequantized exactly; returns how many tensors have each type."""
    reader, types = gguf.GGUFReader(path), {}
    theirs = family.NORMS | family.ATTENTION | family.GATED
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    top = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
    state = model.state_dict()
    for tensor in reader.tensors:
        types[tensor.tensor_type.name] = types.get(tensor.tensor_type.name, 0) + 1
        if tensor.name == "rope_freqs.weight":
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        part = tensor.name.split(".")[-2]
        if part in heads:  # back from pairs to halves
            values = values.reshape(heads[part], -1, 2, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)
        layer = tensor.name.split(".")[1]
        name = f"model.layers.{layer}.{theirs[part]}.weight" if tensor.name.startswith("blk.") else top[part] + ".weight"
        state.pop(name).copy_(torch.from_numpy(values))
    assert not [name for name in state if not name.startswith("model.rotary")], state.keys()
    return types


def llama_cpp_says(path, found):
    """What llama.cpp computes from a file, beside the numbers in float64."""
    import llama_cpp
    made = llama_cpp.Llama(str(path), n_ctx=256, n_threads=1, logits_all=True, verbose=False)
    last, same, count = [], 0, 0
    for prompt, top1 in zip(found["prompts"], found["top1"]):
        made.reset()
        made.eval(prompt)
        logits = made.scores[:len(prompt)]
        same, count = same + int((logits.argmax(-1) == top1).sum()), count + len(prompt)
        last.append([float(f"{v:.6g}") for v in logits[-1]])
    return {"version": f"package llama_cpp_python {llama_cpp.__version__}", "top1_agree": f"{same}/{count}",
            "nmse_to_this_reference": nmse(last, found["last_logits"]), "last_logits": last}


def nmse(got, want):
    got, want = np.array(got), np.array(want)
    return float(f"{((got - want) ** 2).sum() / (want ** 2).sum():.4g}")


def router_gaps(model, found):
    """For each prompt and what follows it, how near the first expert that is left out comes to the last one chosen."""
    gaps, used = [], model.config.num_experts_per_tok
    with torch.no_grad(), family.in_float64():
        for prompt, greedy in zip(found["prompts"], found["greedy"]):
            routed = model(torch.tensor([prompt + greedy]), output_router_logits=True).router_logits
            best = torch.stack(routed).topk(used + 1, -1).values
            gaps.append(float(f"{(best[..., used - 1] - best[..., used]).min().item():.4g}"))
    return gaps


def make(llama_cpp, folder, name, seed):
    """Makes a model with its numbers, if no two tokens and no two experts are nearly equally likely anywhere."""
    rule, made = MODELS[name]
    to, quantized = Path(folder) / f"{name}.gguf", not name.endswith("f16")
    kind, config = made()
    with family.in_float64():
        experts = {"experts_implementation": "eager"} if hasattr(config, "num_experts") else {}
        model = kind._from_config(config, **family.EXACT, **experts)
    model = model.double().eval()
    family.randomize(model, seed)
    about = {"architecture": None, "n_ctx": family.CONTEXT, "notes": f"random weights, seed {seed}",
             "source": f"transformers {tf.__version__}, {kind.__name__} in float64"}
    if quantized:
        before = family.numbers(model, seed, following=1)["last_logits"]
    else:
        found = family.numbers(model, seed)
        if found["min_margin"] <= 2e-4:
            return False
    if hasattr(config, "num_experts"):
        about["router_gaps"] = router_gaps(model, found)
        if min(about["router_gaps"]) <= 1e-3:
            return False
    with tempfile.TemporaryDirectory() as work:
        # In float32, for the converter adds 1 to Gemma's norms.
        copy.deepcopy(model).float().save_pretrained(work)
        tokens = byte_level(work, rule, config) if rule else sentence_piece(work, config)
        converted = f"{work}/converted.gguf" if quantized else to
        convert(llama_cpp, rule, work, f"tiny-random-{name.split('-')[0]}", converted)
        if quantized:
            quantize(converted, to)
    if quantized:
        about["tensor_types"] = take_weights(model, to)
        about["source"] += ", with the weights of the file, dequantized exactly"
        found = family.numbers(model, seed)
        if found["min_margin"] <= 2e-4:
            return False
        about |= {"unquantized_last_logits": before, "nmse_to_unquantized": nmse(found["last_logits"], before),
                  "llama_cpp": llama_cpp_says(to, found)}
    else:
        about["tokenizer"] = [[text, tokens(text)] for text in TEXTS]
    about["architecture"] = gguf.GGUFReader(to).fields["general.architecture"].contents()
    with open(to.with_suffix(".json"), "w") as file:
        json.dump(about | found, file, separators=(",", ":"))
    print(f"{name}: seed {seed}, smallest margin {found['min_margin']:.1e}, {to.stat().st_size} bytes")
    return True


def main():
    torch.set_default_dtype(torch.float64)
    llama_cpp, folder, *chosen = sys.argv[1:]
    for name in chosen or MODELS:
        assert any(make(llama_cpp, folder, name, seed) for seed in range(20)), f"{name}: no seed of 20 keeps tokens apart"


if __name__ == "__main__":
    main()
