"""What a small call costs, from Rust and from Python: python speed.py NANOSECONDS-FROM-RUST."""

import sys
import time

import numpy as np
import rocm_ops

#: So few that a round is often not interrupted.
CALLS, ROUNDS = 1000, 100


def fastest(call):
    """Microseconds of a call, in the fastest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - begin) / CALLS)
    return best * 1e6


def main():
    rust = float(sys.argv[1]) / 1000
    print("| rms_norm of 64 numbers | µs | more than from Rust |")
    print("|---|---:|---:|")
    print(f"| from Rust, into given memory | {rust:.2f} | |")
    libraries = {"NumPy": np.ones}
    try:
        import torch

        libraries["PyTorch"] = lambda *shape: torch.ones(*shape)
    except ModuleNotFoundError:
        pass
    for name, ones in libraries.items():
        x, w, y = (ones((1, 64)), ones((64,)), ones((1, 64))) if name == "PyTorch" else (
            np.ones((1, 64), np.float32), np.ones(64, np.float32), np.ones((1, 64), np.float32)
        )
        for what, call in [
            ("with `out=`", lambda: rocm_ops.rms_norm(x, w, eps=1e-5, out=y)),
            ("with a new result", lambda: rocm_ops.rms_norm(x, w, eps=1e-5)),
        ]:
            took = fastest(call)
            print(f"| from Python, {name}, {what} | {took:.2f} | {took - rust:.2f} |")


if __name__ == "__main__":
    main()
