#!/usr/bin/env bash
# Measures what a call of the CPU backend costs beyond its kernel. `--check` counts instructions too, under valgrind, and fails if a
# call executes more than its budget or allocates.
set -euo pipefail
cd "$(dirname "$0")/../.."
# With the facade's features, so that the examples' dependencies are not built again.
cargo build --release -p ops-cpu -p rocm-ops --example overhead
"${CARGO_TARGET_DIR:-target}/release/examples/overhead" "$@"
