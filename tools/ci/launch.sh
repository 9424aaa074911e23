#!/usr/bin/env bash
# Measures the host time of a call of the ROCm backend until its kernel is enqueued, on the stand-in. `--check` counts instructions
# too, under valgrind, and fails if a call executes more than its budget or allocates.
set -euo pipefail
cd "$(dirname "$0")/../.."
OPS_ROCM_PATH=$(cargo xtask standin | tail -n 1)
export OPS_ROCM_PATH HIP_STANDIN_LAUNCH=stub
# With the facade's features, so that the examples' dependencies are not built again.
cargo build --release -p ops-rocm -p rocm-ops --example launch
"${CARGO_TARGET_DIR:-target}/release/examples/launch" "$@"
