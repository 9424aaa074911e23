#!/usr/bin/env bash
# Compares the CPU backend with PyTorch and candle and writes docs/performance.md.
#
# peers/run.sh [--threads N] [--only PART]    everything it installs goes to peers/.work
set -euo pipefail
cd "$(dirname "$0")/.."
work=${PEERS_WORK:-peers/.work}
mkdir -p "$work"
work=$(cd "$work" && pwd)

cargo build --release --example generate
cargo build --release -p ops-cpu --example peer
cargo build --release -p ops-cli

peers=()
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
if "$work/venv/bin/python" -c 'import torch' 2>/dev/null \
    || "$work/venv/bin/pip" install --quiet torch numpy --index-url https://download.pytorch.org/whl/cpu \
    || "$work/venv/bin/pip" install --quiet torch numpy; then
    peers+=(--torch "$work/venv/bin/python")
fi
if CARGO_TARGET_DIR="$work/candle-target" cargo build --release --manifest-path peers/candle/Cargo.toml; then
    peers+=(--candle "$work/candle-target/release/candle-peer")
fi

target=${CARGO_TARGET_DIR:-target}
exec python3 peers/compare.py --ours "$target/release/examples/peer" \
    --generate "$target/release/examples/generate" --ops "$target/release/ops" "${peers[@]}" "$@"
