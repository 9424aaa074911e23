#!/usr/bin/env python3
"""Makes small encoders of random weights and the embeddings that a correct program computes from them.

    python3 tools/generate/encoder-fixture.py FOLDER [NAME ..]

For each encoder, FOLDER/NAME is a folder as `sentence-transformers` writes it, with its numbers in expected.json: texts, their tokens,
what these decode to, and embeddings. The numbers are those of the package `transformers` in float64 with plain attention, each text
alone, pooled and normalised here. Needs the packages torch and transformers; tools/generate/fixtures.sh installs them.

A tokenizer.json that is already there is kept: the package `tokenizers` gives word pieces that are equally frequent another order in
every run.
"""

import json
import os
import sys

import tokenizers as tk
import torch
import transformers as tf

SIZES = dict(vocab_size=320, max_position_embeddings=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, type_vocab_size=2)

# Class of transformers, differences from SIZES, pooling, whether normalised, maximum length, whether converted to lower case.
ENCODERS = {
    "bert": ("BertModel", {}, "mean", True, 24, False),
    "bert_masked": ("BertForMaskedLM", dict(hidden_act="gelu_new", num_attention_heads=2, num_hidden_layers=1), "cls", False, None, True),
}
WORDS = ["hello world hello there, it's the world's clock, here and now", "embeddings of sentences are embedded sentences",
         "a river runs through the valley and the valley is green"]
TEXTS = [
    "Hello world",
    "The river runs, and the clock is here.",
    "Unknown \u4f60\u597d words: caf\u00e9, 1234!",
    "",
    "now",
    " ".join(["embedded sentences of the green valley"] * 12),
    "a [SEP] in a text is text",
]


def tokenizer(lower):
    """A tokenizer of word pieces, trained on next to nothing. Its own truncation and padding are not those of the model."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = tk.Tokenizer(tk.models.WordPiece(unk_token="[UNK]"))
    made.normalizer = tk.normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    made.decoder = tk.decoders.WordPiece()
    trainer = tk.trainers.WordPieceTrainer(vocab_size=320, special_tokens=special, show_progress=False,
                                           initial_alphabet=[chr(c) for c in range(33, 127)])
    made.train_from_iterator(WORDS * 4, trainer)
    ends = [("[CLS]", made.token_to_id("[CLS]")), ("[SEP]", made.token_to_id("[SEP]"))]
    made.post_processor = tk.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends)
    made.enable_truncation(8)
    made.enable_padding(length=8)
    return made


def randomize(model, seed):
    """Weights of a size that keeps every part visible, and that f16 represents exactly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if p.dim() >= 2:
                values = noise * (0.5 if "embeddings" in name else 1.6 / p.shape[-1] ** 0.5)
            else:
                values = (1.0 if name.endswith("LayerNorm.weight") else 0.0) + 0.2 * noise
            p.copy_(values.to(torch.float16).to(p.dtype))


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(value, file, indent=1)


def sentence_files(to, pooling, normalized, longest, lower, dim):
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalized
    paths = ["", "1_Pooling", "2_Normalize"]
    write_json(f"{to}/modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths))])
    modes = {"cls_token": pooling == "cls", "mean_tokens": pooling == "mean", "max_tokens": False, "mean_sqrt_len_tokens": False}
    write_json(f"{to}/1_Pooling/config.json",
               {"word_embedding_dimension": dim} | {f"pooling_mode_{mode}": on for mode, on in modes.items()})
    if longest or lower:
        own = {"max_seq_length": longest} if longest else {}
        write_json(f"{to}/sentence_bert_config.json", own | {"do_lower_case": lower})


def tokens(made, text, lower, longest):
    """As sentence-transformers does: special tokens stay when a text is cut."""
    plain = tk.Tokenizer.from_str(made.to_str())
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    ids = plain.encode(text.lower() if lower else text).ids
    return ids if len(ids) <= longest else ids[:longest - 1] + ids[-1:]


def embed(model, ids, pooling, normalized):
    with torch.no_grad():
        hidden = model(torch.tensor([ids])).last_hidden_state[0]
    vector = hidden.mean(0) if pooling == "mean" else hidden[0]
    return torch.nn.functional.normalize(vector, dim=0) if normalized else vector


def main():
    torch.set_default_dtype(torch.float64)
    folder, chosen = sys.argv[1], sys.argv[2:] or list(ENCODERS)
    for name in chosen:
        kind, own, pooling, normalized, longest, lower = ENCODERS[name]
        config = tf.BertConfig(**SIZES | own)
        model = getattr(tf, kind)._from_config(config, attn_implementation="eager").double().eval()
        randomize(model, 0)
        to = f"{folder}/{name}"
        kept = f"{to}/tokenizer.json"
        made = tk.Tokenizer.from_file(kept) if os.path.exists(kept) else tokenizer(not lower)
        cut = longest or config.max_position_embeddings
        ids = [tokens(made, text, lower, cut) for text in TEXTS]
        encoder = getattr(model, "bert", model)
        embeddings = [embed(encoder, each, pooling, normalized) for each in ids]
        # One folder holds its weights in f16, the other in f32.
        model.to(torch.float16 if name == "bert" else torch.float32).save_pretrained(to)
        made.save(f"{to}/tokenizer.json")
        write_json(f"{to}/tokenizer_config.json", {
            "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"})
        sentence_files(to, pooling, normalized, longest, lower, config.hidden_size)
        with open(f"{to}/expected.json", "w") as file:
            json.dump({
                "source": f"transformers {tf.__version__}, {kind} in float64", "texts": TEXTS, "ids": ids,
                "decoded": [made.decode(each) for each in ids],
                "embeddings": [[float(f"{v:.10g}") for v in vector] for vector in embeddings],
            }, file, separators=(",", ":"))
        print(f"{name}: {sorted(os.listdir(to))}, lengths {[len(each) for each in ids]}")


main()
