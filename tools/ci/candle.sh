#!/usr/bin/env bash
# Tests the adapter for candle: lints, the ops and weights against candle's own, its examples, and, on the stand-in for ROCm, the ops
# with copies. candle is built once, in adapters/candle/target, or in the folder candle below CARGO_TARGET_DIR.
set -euo pipefail
cd "$(dirname "$0")/../../adapters/candle"
[ -z "${CARGO_TARGET_DIR:-}" ] || export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/candle
cargo fmt --check
cargo clippy --quiet --all-targets --features rocm -- -D warnings
cargo test --quiet --features rocm
