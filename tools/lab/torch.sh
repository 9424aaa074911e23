#!/usr/bin/env bash
# Tests the Python wheel with PyTorch, and measures what a call from Python costs. Its output is docs/lab/torch.md.
#
# Usage: tools/lab/torch.sh PYTHON     PYTHON has PyTorch, with or without ROCm
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:?tools/lab/torch.sh: the path of a Python with PyTorch is missing}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tools/ci/python.sh --release --torch "$python" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/python-build
rust=$(cargo run --quiet --release --manifest-path python/Cargo.toml --example call)
inside=target/python/venv/bin/python
# Isolated: next to the script is the package without its extension.
costs=$("$inside" -I python/speed.py "$rust")
cat <<PAGE
# The Python package with PyTorch

- Date: $(date -u +%F), commit $(git rev-parse --short HEAD)
- Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) threads; $("$inside" -c 'import torch, numpy, sys; print(f"Python {sys.version.split()[0]}, PyTorch {torch.__version__}, NumPy {numpy.__version__}")')
- Command: \`tools/lab/torch.sh PYTHON\`
- ROCm of that PyTorch: $("$inside" -c 'import torch; print(torch.version.hip or "none; everything ran on the CPU")')

Every op on floats: the plain function on tensors of PyTorch against the reference, and \`torch.library.opcheck\` of the custom op. Then
\`torch.compile\`, \`QuantLinear\`, \`load_gguf\`, gradients, and the check of PyTorch's own ops.

    $(grep -E '(KiB of|passed|failed)' "$log" | sed 's,.*/wheels/,,' | paste -sd'~' | sed 's/~/\n    /g')

What a small call costs, in the fastest of 100 rounds of 1000 calls:

$costs
PAGE
