#!/usr/bin/env bash
# Compares candle's quantized llama on its own weights with the same model on ours (adapters/candle), on a llama of a billion random
# weights.
#
# peers/adapter.sh [--types q4_0,q4_k_m,q8_0] [--layers N] [--prompt N] [--tokens N] [--rounds N] [--cpu]
#
# With --cpu, one thread computes, and only the time in which it ran counts: for a machine on which other programs run.
# Everything goes to peers/.work: the build and 5 GB of models.
set -euo pipefail
cd "$(dirname "$0")/.."
. peers/setup.sh
types=q4_0,q4_k_m,q8_0 layers=16 prompt=128 tokens=32 rounds=3 cpu=()
while [ $# -gt 0 ]; do
    case $1 in
        --types | --layers | --prompt | --tokens | --rounds) declare "${1#--}=$2" && shift 2 ;;
        --cpu) cpu=(cpu) && export RAYON_NUM_THREADS=1 && shift ;;
        *) echo "adapter.sh: no option '$1'" >&2 && exit 2 ;;
    esac
done

models=$work/adapter-models
mkdir -p "$models"
cargo build --release -p ops-cli
CARGO_TARGET_DIR="$work/candle-target" cargo build --release --manifest-path adapters/candle/Cargo.toml --example tokens_per_second
[ -e "$models/f16-$layers.gguf" ] || python3 tools/generate/random_llama.py "$models/f16-$layers.gguf" 1b "$layers"
for type in ${types//,/ }; do
    model=$models/$type-$layers.gguf
    [ -e "$model" ] || "$target/release/ops" quantize "$models/f16-$layers.gguf" "$model" --type "$type"
    echo "$type"
    "$work/candle-target/release/examples/tokens_per_second" "$model" "$prompt" "$tokens" "$rounds" "${cpu[@]}" || echo "died with status $?"
done
