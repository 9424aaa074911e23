"""Times our `ops generate` and llama.cpp in turns with the same files, and prints tokens per second. Called by llama.sh.

With --write, the text also becomes peers/llama.md and the section of docs/performance.md that run.sh takes from there.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import compare
from llama import model

PROMPT, MORE = 512, 32
ROOT = pathlib.Path(__file__).resolve().parents[2]
TITLE = "## Compared with llama.cpp\n\n"
ABOUT = """`peers/llama.sh --write` writes this part. A llama of random weights (16 layers of 2048, 8192 wide, 32 heads of which 8 have keys,
32000 tokens), one file for each type, read by both: llama.cpp from the sources of llama_cpp_python 0.3.36, built for this processor
with its repacking of weights, and our `ops generate`, which maps the file. It puts q8_0 and q4_0 weights in tiles of sixteen rows as
it loads them; all others stay as they are in the file. Tokens per second."""


def ours(program, path, threads):
    ids = ",".join(str(300 + i * 37 % 1000) for i in range(PROMPT))
    command = [program, "generate", "--mmap", "--model", path, "--prompt-ids", ids, "--max-tokens", str(MORE + 1)]
    command += ["--warm-up", "--ignore-eos", "--temperature", "0", "--json"]
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def theirs(program, path, threads):
    command = [program, path, str(threads), str(PROMPT), str(MORE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--llama", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", default=",".join([*model.TYPES, "q4_k_m"]))
    parser.add_argument("--write", action="store_true", help="also write the page")
    args = parser.parse_args()
    lines = [
        f"{datetime.date.today().isoformat()}, {compare.cpu()}, {args.threads} threads, a prompt of {PROMPT} tokens and {MORE} after it,"
        f" the best of {args.rounds} rounds in turns; load average {os.getloadavg()[0]:.1f}.",
        "",
        "| type | prefill ours | llama.cpp | ratio | decode ours | llama.cpp | ratio | GB/s ours |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    for kind in args.types.split(","):
        lines.append(row(args, kind))
        print(lines[-1], flush=True)
    if args.write:
        write("\n".join([ABOUT, "", *lines]))


def row(args, kind):
    path = args.models / f"{kind}.gguf"
    if not path.exists():
        model.main(str(path), kind)
    size = path.stat().st_size
    cells, best = rates(args, path)
    # A token reads all weights, but only one row of the embedding table.
    read = size * (1 - model.share_of_table())
    return f"| {kind} | {' | '.join(cells)} | {best['ours', 'decode_per_second'] * read / 1e9:.1f} |"


def rates(args, path):
    """Tokens per second of both programs with a file, as cells of a table, and as numbers."""
    path.read_bytes()  # So that the first round does not read from disk.
    best = {}
    for _ in range(args.rounds):
        for who, run, program in (("ours", ours, args.ours), ("llama", theirs, args.llama)):
            answer = run(program, str(path), args.threads)
            for what in ("prefill_per_second", "decode_per_second"):
                best[who, what] = max(best.get((who, what), 0.0), answer[what])
    cells = []
    for what in ("prefill_per_second", "decode_per_second"):
        left, right = best["ours", what], best["llama", what]
        cells += [f"{left:.1f}", f"{right:.1f}", f"{left / right:.2f}"]
    return cells, best


def write(text):
    (ROOT / "peers/llama.md").write_text(text + "\n")
    page = ROOT / "docs/performance.md"
    before, rest = page.read_text().split(TITLE, 1)
    page.write_text(before + TITLE + text + "\n\n" + rest[rest.index("## ") :])


if __name__ == "__main__":
    sys.exit(main())
