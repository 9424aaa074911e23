"""Runs our CPU backend, PyTorch and candle in turns and writes docs/performance.md.

Called by run.sh. A peer that cannot be had is left out, and the document says so.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 3
FLOATS = ("f32", "bf16", "f16")
SIZE = {"f32": 4, "bf16": 2, "f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
SIZE |= {"q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256, "iq4_xs": 136 / 256, "mxfp4": 17 / 32}
BLOCKS = ("q8_0", "q4_0", "q4_k", "q5_k", "q6_k", "iq4_xs", "mxfp4")


def cases():
    """Name, bytes read and written once, arithmetic operations."""
    out = []
    rows, n, rope = 512 * 4096, 4 << 20, 32 * 512 * 128
    for dtype in FLOATS:
        e = SIZE[dtype]
        for op in ("rms_norm", "layer_norm", "softmax"):
            out.append((f"{op} 512x4096 {dtype}", 2 * rows * e, 0))
        for op, dims in (("neox", "1x32x512x128"), ("interleaved", "1x32x512x128"), ("thd", "1x512x32x128")):
            out.append((f"rope_{op} {dims} {dtype}", 2 * rope * e, 0))
        for op in ("silu", "gelu", "gelu_erf", "sigmoid", "affine"):
            out.append((f"{op} {n} {dtype}", 2 * n * e, 0))
        for op in ("add", "swiglu"):
            out.append((f"{op} {n} {dtype}", 3 * n * e, 0))
        out.append((f"where {n} {dtype}", 3 * n * e + n, 0))
        many = 16 << 20
        for op in ("eq", "lt"):
            out.append((f"{op} {many} {dtype}", many * (2 * e + 1), 0))
        for op in ("powf", "clamp"):
            out.append((f"{op} {many} {dtype}", 2 * many * e, 0))
    for op in ("sum", "sum_first", "max", "max_first", "argmax", "argmax_first"):
        out.append((f"{op} 512x4096 f32", 4 * rows, 0))
    out.append(("transpose 4096x4096 f32", 2 * 4 * 4096 * 4096, 0))
    out.append(("argsort 512x4096 f32", 2 * 4 * rows, 0))
    out.append(("gather 4096x512 f32", 3 * 4 * rows, 0))
    out.append(("scatter_add 4096x512 f32", 4 * 4 * rows, 0))
    out.append(("index_add 4096x512 f32", 3 * 4 * rows, 0))
    out.append((f"cast {16 << 20} u8>f16", 3 * (16 << 20), 0))
    for pair in ("f32>bf16", "f32>f16", "bf16>f32", "f16>f32"):
        out.append((f"cast {n} {pair}", 6 * n, 0))
    for m in (1, 8, 512):
        for dtype in (*FLOATS, *BLOCKS):
            flops = 2 * m * 4096 * 4096
            out.append((f"linear {m}x4096x4096 {dtype}", 4096 * 4096 * SIZE[dtype] if m == 1 else 0, flops))
    for m in (1, 8, 16, 512):
        for dtype in (*FLOATS, "q8_0", "q4_0"):
            flops = 2 * m * 4096 * 4096
            nbytes = 4096 * 4096 * SIZE[dtype] if m == 1 else 0
            out.append((f"linear_packed {m}x4096x4096 {dtype}", nbytes, flops))
    out.append(("matmul 512x4096x4096 f32", 0, 2 * 512 * 4096 * 4096))
    out.append(("matmul 64x64x64 f32", 0, 2 * 64**3))
    # Batch, channels, height, width, output channels, kernel, groups.
    for op, c, o, k, groups in (
        ("conv2d", 64, 64, 3, 1),
        ("conv2d", 64, 64, 1, 1),
        ("conv2d", 64, 64, 3, 64),
        ("conv_transpose2d", 64, 64, 3, 1),
    ):
        flops = 2 * 56 * 56 * o * k * k * c // groups
        out.append((f"{op} 1x{c}x56x56x{o}x{k}x{groups} f32", 2 * 64 * 56 * 56 * 4 if groups > 1 else 0, flops))
    for dtype in FLOATS:
        out.append((f"attention 32x32x512x512x128 {dtype}", 0, 2 * 32 * 512 * 512 * 128))
        out.append((f"attention 32x8x1x4096x128 {dtype}", 2 * 8 * 4096 * 128 * SIZE[dtype], 0))
    return out


class Peer:
    """A program that reads the name of a case and answers microseconds."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer.startswith("wrong") or not answer:
            raise SystemExit(f"{line}: {answer or 'the peer ended'}")
        return None if answer.startswith("none") else float(answer)


def in_turns(peers, name):
    """The best of the rounds for every peer, in microseconds."""
    times = {peer: [] for peer in peers}
    for _ in range(ROUNDS):
        for peer, program in peers.items():
            times[peer].append(program.ask(name))
    return {peer: None if None in t else min(t) for peer, t in times.items()}


def tokens(ops, candle, model):
    """Tokens per second of greedy decoding, ours and candle's, in turns, the best of the rounds."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        command = [ops, "generate", "--model", model, "--temperature", "0", "--max-tokens", "200", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        ours.append(json.loads(done.stdout)["decode_per_second"])
        if candle:
            theirs.append(1e6 / candle.ask(f"generate\t{model}"))
    return max(ours), max(theirs) if theirs else None


def models(ops):
    """The bundled model in its two types, and in one more that is made from it."""
    paths = {model: str(ROOT / f"models/tiny-llama-kjv-{model}.gguf") for model in ("f16", "q8_0")}
    paths["q4_0"] = str(pathlib.Path(tempfile.mkdtemp()) / "q4_0.gguf")
    subprocess.run([ops, "quantize", paths["f16"], paths["q4_0"], "--type", "q4_0"], check=True, stdout=subprocess.DEVNULL)
    return paths


def figure(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def table(results, ceilings):
    lines = [
        "| op | ours µs | PyTorch µs | candle µs | % of copy | GFLOP/s | best peer / ours |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (name, nbytes, flops), times in results:
        ours, theirs = times["ours"], [t for p, t in times.items() if p != "ours" and t]
        ceiling = ceilings.get(nbytes)
        percent = f"{100 * ceiling / ours:.0f}" if ceiling else "–"
        rate = f"{flops / ours / 1e3:,.0f}" if flops else "–"
        ratio = f"{min(theirs) / ours:.2f}" if theirs else "–"
        digits = 0 if ours >= 100 else 1
        cells = (figure(times.get(p), digits) for p in ("ours", "torch", "candle"))
        lines.append(f"| {name} | {' | '.join(cells)} | {percent} | {rate} | {ratio} |")
    return "\n".join(lines)


def cpu():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    model = next((l.split(":", 1)[1].strip() for l in lines if l.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--ops", required=True, help="the command-line program, which quantizes the model")
    parser.add_argument("--candle")
    parser.add_argument("--torch", help="the Python that has PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="cases whose name contains this; nothing is written")
    args = parser.parse_args()

    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    peers = {"ours": Peer([args.ours])}
    if args.torch:
        peers["torch"] = Peer([args.torch, str(ROOT / "peers/torch_peer.py"), str(args.threads)])
    if args.candle:
        peers["candle"] = Peer([args.candle])

    results, ceilings = [], {}
    for case in cases():
        if args.only not in case[0]:
            continue
        if case[1] and case[1] not in ceilings:
            copies = [peers["ours"].ask(f"copy {int(case[1])} f32") for _ in range(ROUNDS)]
            ceilings[case[1]] = min(copies)
        results.append((case, in_turns(peers, case[0])))
        print(case[0], results[-1][1], flush=True)
    rates = {
        model: tokens(args.ops, peers.get("candle"), path)
        for model, path in models(args.ops).items()
        if args.only in "generate"
    }
    print(rates)
    if args.only:
        return

    lines = [f"| {m} | {figure(o)} | {figure(t)} | {figure(o / t if t else None, 1)} |" for m, (o, t) in rates.items()]
    absent = [name for flag, name in ((args.torch, "PyTorch"), (args.candle, "candle")) if not flag]
    text = (ROOT / "peers/performance.md.in").read_text()
    for key, value in {
        "DATE": datetime.date.today().isoformat(),
        "MACHINE": cpu(),
        "THREADS": str(args.threads),
        "LOAD": f"{os.getloadavg()[2]:.1f}",
        "ABSENT": f"Not measured, because it could not be installed: {', '.join(absent)}." if absent else "",
        "TABLE": table(results, ceilings),
        "LLAMA": (ROOT / "peers/llama.md").read_text().strip(),
        "TOKENS": "\n".join(["| model | ours | candle | ratio |", "|---|---:|---:|---:|", *lines]),
    }.items():
        text = text.replace(f"@{key}@", value)
    (ROOT / "docs/performance.md").write_text(text)


if __name__ == "__main__":
    main()
