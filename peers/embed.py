"""Runs our encoder, PyTorch's and candle's in turns on the same texts, and prints a table.

Called by embed.sh. Tokenization is not timed. Ours makes its own batches, without padding. PyTorch and candle are given the texts
sorted by length, in batches of 32 texts, in batches of 1024 tokens and in batches of similar lengths, and the fastest counts. Fails
if an embedding of ours has a cosine below 0.99999 with PyTorch's.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import torch
import transformers

from compare import ROUNDS, Peer

ROOT = pathlib.Path(__file__).resolve().parent
ROUND = 1.0
LEAST_COSINE = 0.99999
TOKENS_IN_A_BATCH = 1024


def cases(tokenizer, longest):
    """Name, texts."""
    lines = (ROOT / "sentences.txt").read_text().splitlines()
    together, long = " ".join(lines * 4), []
    for start in range(8):
        # Longer than the model allows: both sides truncate it.
        long.append(together[start * 97:])
    assert all(len(tokenizer(text)["input_ids"]) > longest for text in long)
    return [("1 sentence", lines[:1]), (f"{len(lines)} sentences", lines), (f"8 texts of {longest} tokens", long)]


def batches(ids, full):
    """Places of texts by falling length, where a batch ends before `full(count, longest, shortest)` holds for it."""
    out = []
    for i in sorted(range(len(ids)), key=lambda i: -len(ids[i])):
        if out and not full(len(out[-1]) + 1, len(ids[out[-1][0]]), len(ids[i])):
            out[-1].append(i)
        else:
            out.append([i])
    return out


class Torch:
    def __init__(self, folder):
        self.model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()

    def embed(self, batch):
        width = max(map(len, batch))
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids in batch])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in batch])
        with torch.inference_mode():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask[..., None].to(hidden.dtype)
            mean = (hidden * weights).sum(1) / weights.sum(1)
            return torch.nn.functional.normalize(mean, dim=-1)

    def microseconds(self, all_batches):
        begin, times = time.perf_counter(), []
        while len(times) < 3 or time.perf_counter() - begin < ROUND:
            start = time.perf_counter()
            for batch in all_batches:
                self.embed(batch)
            times.append((time.perf_counter() - start) * 1e6)
        return min(times)


def ours(program, folder, file, repeat):
    """Embeddings, tokens of each text and microseconds."""
    command = [program, "embed", "--model", folder, "--prompts", file, "--json", "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    seconds = float(re.search(r"batches: ([0-9.]+) s", done.stderr)[1])
    return [row["embedding"] for row in rows], [row["tokens"] for row in rows], seconds * 1e6


def measure(args, torch_model, candle, folder, ids, file):
    """Fastest of the rounds for each, in microseconds, and the least cosine of ours with PyTorch's."""
    ways = [batches(ids, lambda count, longest, shortest: count > 32),
            batches(ids, lambda count, longest, shortest: count * longest > TOKENS_IN_A_BATCH),
            # Mostly without padding.
            batches(ids, lambda count, longest, shortest: count * longest > TOKENS_IN_A_BATCH
                    or (4 * shortest < 3 * longest and (count - 1) * longest >= 128))]
    embeddings, tokens, first = ours(args.ours, args.model, file, 3)
    assert tokens == [len(each) for each in ids], "both sides have the same tokens"
    repeat = max(3, int(ROUND * 1e6 / first))
    best = {"ours": first}
    def keep(name, microseconds):
        best[name] = min(best.get(name, microseconds), microseconds)
    for _ in range(ROUNDS):
        keep("ours", ours(args.ours, args.model, file, repeat)[2])
        for way in ways:
            keep("torch", torch_model.microseconds([[ids[i] for i in batch] for batch in way]))
            if candle:
                request = os.path.join(folder, "request.json")
                with open(request, "w") as out:
                    json.dump({"folder": args.model, "batches": [[ids[i] for i in batch] for batch in way]}, out)
                answer = candle.ask(f"embed\t{request}")
                if answer:
                    keep("candle", answer)
    want = torch.stack([torch_model.embed([each])[0] for each in ids])
    cosine = torch.nn.functional.cosine_similarity(torch.tensor(embeddings), want, dim=-1).min().item()
    return best, cosine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--candle")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    longest = json.loads((pathlib.Path(args.model) / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.model, "tokenizer.json"))
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    torch_model, candle = Torch(args.model), Peer([args.candle]) if args.candle else None
    print("| texts | tokens | ours µs | PyTorch µs | candle µs | PyTorch / ours | candle / ours | least cosine |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, texts in cases(tokenizer, longest):
            ids = [tokenizer(text)["input_ids"] for text in texts]
            ids = [each if len(each) <= longest else each[:longest - 1] + each[-1:] for each in ids]
            file = os.path.join(folder, "texts.txt")
            pathlib.Path(file).write_text("\n".join(texts) + "\n")
            best, cosine = measure(args, torch_model, candle, folder, ids, file)
            ratio = lambda peer: f"{best[peer] / best['ours']:.2f}" if peer in best else "–"
            cells = [name, sum(map(len, ids))] + [f"{best[p]:,.0f}" if p in best else "–" for p in ("ours", "torch", "candle")]
            print("| " + " | ".join(map(str, cells + [ratio("torch"), ratio("candle"), f"{cosine:.7f}"])) + " |", flush=True)
            if cosine < LEAST_COSINE:
                wrong.append(name)
    if wrong:
        raise SystemExit(f"cosines below {LEAST_COSINE}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
