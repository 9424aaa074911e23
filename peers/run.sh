#!/usr/bin/env bash
# Compares the CPU backend with PyTorch and candle and writes docs/performance.md.
#
# peers/run.sh [--threads N] [--only PART]    everything it installs goes to peers/.work
set -euo pipefail
cd "$(dirname "$0")/.."
. peers/setup.sh

cargo build --release -p ops-tests --example peer
cargo build --release -p ops-cli

peers=()
if torch; then
    peers+=(--torch "$python")
fi
if candle; then
    peers+=(--candle "$work/candle-target/release/candle-peer")
fi

python3 peers/compare.py --ours "$target/release/examples/peer" \
    --ops "$target/release/ops" "${peers[@]}" "$@"
# Figures of the page.
cargo xtask figures
