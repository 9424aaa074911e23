#!/usr/bin/env bash
# Compares prefill and decoding of a llama of a billion random weights with llama.cpp, type by type, and prints a table.
#
# peers/llama.sh [--threads N] [--rounds N] [--types q4_k,q6_k] [--no-build]
#
# Everything goes to peers/.work: sources, build and 6 GB of models.
set -euo pipefail
cd "$(dirname "$0")/.."
. peers/setup.sh
mkdir -p "$work/llama-models"

if [[ " $* " == *" --no-build "* ]]; then
    set -- "${@/--no-build/}"
else
    cargo build --release -p ops-cli
    llama_cpp
fi

# shellcheck disable=SC2068 # An emptied argument vanishes.
exec "$llama_python" peers/llama/turns.py --ours "$target/release/ops" --llama "$llama" \
    --models "$work/llama-models" $@
