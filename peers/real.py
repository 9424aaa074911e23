"""Compares what we compute from real model files with `transformers` in float64, and our speed with llama.cpp's. Called by real.sh.

Weights are dequantized by the package `gguf`. With exact activations, our logits must be those of `transformers` but for rounding to
f32, and every choice of a token the same. With activations rounded to 8 bits, a choice may differ where the best two logits are near.
The bounds of the NMSE are for the last logits of each prompt.
"""

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import embed
from llama import turns

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent / "tools/generate"))
in_float64 = importlib.import_module("family-fixture").in_float64

NMSE = {"rounded": 6e-3, "exact": 1e-11}
# Below this margin between the best two logits, a choice may differ.
MARGIN = {"rounded": 0.6, "exact": 0.0}
LARGEST_DIFFERENCE = 2e-5
PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Once upon a time, in a small village by the sea, there lived an old fisherman who",
    # Longer than the window of Gemma 3's local layers.
    " ".join((2 * (ROOT / "sentences.txt").read_text()).split()[:500]),
]


class Model:
    """A model file as `transformers` reads it."""

    def __init__(self, path):
        of_file = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(**of_file)
        model = transformers.AutoModelForCausalLM.from_pretrained(**of_file, dtype=torch.float32, attn_implementation="eager")
        # What is not a weight, such as angles, is computed anew in float64.
        with in_float64():
            self.model = type(model)._from_config(model.config, attn_implementation="eager", dtype=torch.float64)
        self.model.load_state_dict(model.state_dict())
        self.model.eval()

    def logits(self, ids):
        with torch.no_grad(), in_float64():
            return self.model(torch.tensor([ids])).logits[0]


def output(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def ours(args, path, ids, activations):
    """Our choice after each token, and the logits after the last."""
    command = [args.ours, "generate", "--mmap", "--model", path, "--prompt-ids", ",".join(map(str, ids)), "--activations", activations]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "logits.json")
        subprocess.run([*command, "--logits", file], check=True, capture_output=True)
        return [int(id) for id in output([*command, "--top1"]).split()], np.array(json.loads(pathlib.Path(file).read_text()))


def compare(args, path):
    """Prints a row for each prompt and kind of activations; returns what is farther off than is allowed."""
    model, wrong = Model(path), []
    for text in PROMPTS:
        ids = json.loads(output([args.ours, "tokenize", path, text, "--json"]))["ids"]
        if ids != model.tokenizer(text)["input_ids"]:
            wrong.append(f"{path.name}: tokens of {text!r}")
        want = model.logits(ids)
        best, choices = (each.numpy() for each in want.topk(2))
        margins, want = best[:, 0] - best[:, 1], want[-1].numpy()
        for activations in NMSE:
            top1, last = ours(args, path, ids, activations)
            nmse = ((last - want) ** 2).sum() / (want**2).sum()
            differ = margins[np.array(top1) != choices[:, 0]]
            largest = f"{differ.max():.2f}" if differ.size else "–"
            row = [path.name, len(ids), activations, f"{nmse:.1e}", f"{len(ids) - differ.size}/{len(ids)}", largest]
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            if (differ > MARGIN[activations]).any():
                wrong.append(f"{path.name}: choices after {len(ids)} tokens, {activations}")
            if not nmse <= NMSE[activations]:
                wrong.append(f"{path.name}: logits after {len(ids)} tokens, {activations}")
    return wrong


def compare_encoder(args):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.encoder, "tokenizer.json"))
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    texts = (ROOT / "sentences.txt").read_text().splitlines()
    got, tokens, _ = embed.ours(args.ours, args.encoder, str(ROOT / "sentences.txt"), 1)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    model = embed.Torch(args.encoder)
    model.model.double()
    want = torch.stack([model.embed([each])[0] for each in ids])
    difference = (torch.tensor(got, dtype=torch.float64) - want).abs().max().item()
    print(f"\nall-MiniLM-L6-v2, {len(texts)} sentences: largest difference of an embedding's numbers {difference:.1e}", flush=True)
    wrong = [] if tokens == [len(each) for each in ids] else ["the encoder's tokens"]
    return wrong + ([] if difference <= LARGEST_DIFFERENCE else ["the encoder's embeddings"])


def speed(args):
    print(f"\nTokens per second, {args.threads} threads, a prompt of {turns.PROMPT} tokens and {turns.MORE} after it, the best of"
          f" {args.rounds} rounds in turns; load average {os.getloadavg()[0]:.1f}:\n")
    print("| file | prefill ours | llama.cpp | ratio | decode ours | llama.cpp | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for path in args.models:
        print(f"| {path.name} | {' | '.join(turns.rates(args, path)[0])} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name in ("ours", "encoder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--models", required=True, nargs="+", type=pathlib.Path)
    parser.add_argument("--llama")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    print("| file | tokens | activations | NMSE of the last logits | same choices | largest margin of another choice |")
    print("|---|---:|---|---:|---:|---:|")
    wrong = [each for path in args.models for each in compare(args, path)] + compare_encoder(args)
    if args.llama:
        speed(args)
    if wrong:
        raise SystemExit("farther off than is allowed: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
