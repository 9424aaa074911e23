"""Checks this machine: ``python -m rocm_ops.check``.

First, norms, softmax, attention and products of PyTorch itself, on every AMD GPU that it sees, against the definitions
of the ops in this package, which are computed in double precision on the CPU. Then ``ops check``, which checks this
package's own kernels and writes a report. Words after the module's name are those of ``ops check``.

Exit status: 0 fine, 1 a check failed, 2 there is no card, or bad usage.
"""

import sys

from . import _native
from .__main__ import main as command

#: Largest normalised mean squared error of a result, by element type: far above rounding, far below a wrong kernel.
LIMITS = {"float32": 1e-10, "float16": 1e-5, "bfloat16": 5e-4}


def _exact(name, operands, **options):
    """The definition of an op, in double precision."""
    operands = tuple(x.detach().cpu().double().contiguous() for x in operands)
    return _native.call(name, operands, options, backend="reference")


def cases(torch, device, dtype):
    """Pairs of a name and two functions: PyTorch's result, and the exact one."""
    nn = torch.nn.functional

    def random(*shape):
        generator = torch.Generator().manual_seed(len(shape) * 7919 + shape[-1])
        return torch.randn(*shape, generator=generator).to(dtype).to(device)

    x, w, b = random(33, 1000), random(1000), random(1000)
    q, k, v = random(2, 8, 65, 64), random(2, 8, 65, 64), random(2, 8, 65, 64)
    m, n, rows = random(65, 257), random(257, 130), random(7, 512)
    matrix = random(384, 512)
    yield "rms_norm", lambda: nn.rms_norm(x, (1000,), w, 1e-5), lambda: _exact("rms_norm", (x, w), eps=1e-5)
    yield "layer_norm", lambda: nn.layer_norm(x, (1000,), w, b, 1e-5), lambda: _exact("layer_norm", (x, w, b), eps=1e-5)
    yield "softmax", lambda: nn.softmax(x, -1), lambda: _exact("softmax", (x,))
    yield "log_softmax", lambda: nn.log_softmax(x, -1), lambda: _exact("log_softmax", (x,))
    scale = 64**-0.5
    yield (
        "attention",
        lambda: nn.scaled_dot_product_attention(q, k, v),
        lambda: _exact("attention", (q, k, v), scale=scale),
    )
    yield (
        "causal attention",
        lambda: nn.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: _exact("attention", (q, k, v), scale=scale, causal=True),
    )
    yield "matmul", lambda: m @ n, lambda: _exact("matmul", (m, n))
    yield "linear", lambda: nn.linear(rows, matrix), lambda: _exact("linear", (rows, matrix))


def error(got, exact):
    """The normalised mean squared error; infinite if a value is NaN where it should not be."""
    got = got.detach().cpu().double()
    nmse = float(((got - exact) ** 2).sum() / (exact**2).sum())
    return nmse if nmse == nmse else float("inf")


def check_torch(torch, device, out=print):
    """Checks PyTorch on a device; returns the number of failures."""
    failures = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        for case, run, exact in cases(torch, device, dtype):
            try:
                found = error(run(), exact())
                good = found <= LIMITS[name]
                said = f"nmse {found:.1e}, limit {LIMITS[name]:.0e}"
            except RuntimeError as failed:
                good, said = False, str(failed).splitlines()[0]
            failures += not good
            out(f"{'ok    ' if good else 'FAILED'}  torch {case:17} {name:9} {said}")
    return failures


def main():
    failures = 0
    try:
        import torch
    except ModuleNotFoundError:
        print("PyTorch is not installed: its own ops are not checked")
    else:
        if torch.version.hip and torch.cuda.is_available():
            for number in range(torch.cuda.device_count()):
                print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(number)}")
                failures += check_torch(torch, f"cuda:{number}")
        else:
            print(f"PyTorch {torch.__version__} sees no AMD GPU: its own ops are not checked")
    sys.stdout.flush()
    sys.argv[1:1] = ["check"]
    status = command()
    return 1 if failures else status


if __name__ == "__main__":
    sys.exit(main())
