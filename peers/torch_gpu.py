"""Times PyTorch on an NVIDIA GPU, for the ops whose own figures have no ceiling to stand beside: sorts and convolutions.

    python3 peers/torch_gpu.py

Prints one JSON object a line: op, dtype, shape, ns (the median of rounds, by events), gflops where they are counted.
`ops bench --backend rocm` on the stand-in's cuda engine prints the other side; take both from one machine.
"""
import json
import statistics

import torch


def median_ns(call):
    """Nanoseconds of a call: rounds of ten calls between two events."""
    for _ in range(3):
        call()
    rounds = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        end.synchronize()
        rounds.append(begin.elapsed_time(end) * 1e5)
    return statistics.median(rounds)


def line(op, x, call, flops=0.0, **more):
    ns = median_ns(call)
    row = {"op": op, "dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape), "ns": round(ns)}
    if flops:
        row["gflops"] = round(flops / ns, 1)
    print(json.dumps({**row, **more}), flush=True)


def sorts():
    for shape in [(16384, 4096), (1, 1 << 26)]:
        x = torch.randn(shape, device="cuda")
        line("sort", x, lambda: torch.sort(x, dim=-1))
        line("sort", x, lambda: torch.sort(x, dim=-1, stable=True), stable=True)
    x = torch.randn(512, 128256, device="cuda")
    line("topk", x, lambda: torch.topk(x, 40), k=40)


def convolutions():
    # Full f32, as the kernels here compute it, and then PyTorch's default.
    shapes = [((32, 64, 56, 56), (64, 64, 3, 3), 1), ((32, 256, 14, 14), (256, 256, 3, 3), 1),
              ((32, 64, 56, 56), (64, 64, 1, 1), 1), ((32, 64, 56, 56), (64, 1, 3, 3), 64)]
    for dtype in [torch.float32, torch.float16]:
        for tf32 in [False, True] if dtype == torch.float32 else [False]:
            torch.backends.cudnn.allow_tf32 = tf32
            for image, kernel, groups in shapes:
                x = torch.randn(image, device="cuda", dtype=dtype)
                w = torch.randn(kernel, device="cuda", dtype=dtype)
                pad = kernel[-1] // 2
                products = image[0] * image[2] * image[3] * w.numel()
                call = lambda: torch.nn.functional.conv2d(x, w, padding=pad, groups=groups)
                line("conv2d", x, call, 2.0 * products, weight=list(kernel), groups=groups, tf32=tf32)


def main():
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name()}), flush=True)
    with torch.inference_mode():
        sorts()
        convolutions()


if __name__ == "__main__":
    main()
