#!/usr/bin/env bash
# Measures the host time of a call of the ROCm backend until its kernel is enqueued, on the stand-in. `--check` fails if it
# exceeds twice the budget.
set -euo pipefail
cd "$(dirname "$0")/.."
OPS_ROCM_PATH=$(cargo xtask standin | tail -n 1)
export OPS_ROCM_PATH HIP_STANDIN_LAUNCH=stub
cargo run --release -p ops-rocm --example launch -- "$@"
