#!/usr/bin/env bash
# Compares prefill and decoding of a llama of a billion random weights with llama.cpp, type by type, and prints a table.
#
# peers/llama.sh [--threads N] [--rounds N] [--types q4_k,q6_k] [--no-build]
#
# llama.cpp is built from the sources that its Python package carries on PyPI, for this processor and with its repacking of weights.
# Everything goes to peers/.work: sources, build and 6 GB of models.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${PEERS_WORK:-peers/.work}
mkdir -p "$work/llama-models"
work=$(cd "$work" && pwd)
package=llama_cpp_python-0.3.36
python=$work/llama-venv/bin/python

if [[ " $* " == *" --no-build "* ]]; then
    set -- "${@/--no-build/}"
else
    cargo build --release --example generate
    [ -x "$python" ] || python3 -m venv "$work/llama-venv"
    "$python" -c 'import gguf, numpy' 2>/dev/null \
        || "$python" -m pip install --quiet cmake ninja scikit-build-core numpy gguf
    if [ ! -d "$work/$package" ]; then
        PATH=$work/llama-venv/bin:$PATH "$python" -m pip download --quiet --no-deps --no-build-isolation \
            --no-binary llama-cpp-python --dest "$work" llama-cpp-python==0.3.36
        tar -xzf "$work/$package.tar.gz" -C "$work"
    fi
    PATH=$work/llama-venv/bin:$PATH
    cmake -G Ninja -S peers/llama -B "$work/llama-build" -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA="$work/$package/vendor/llama.cpp" > "$work/llama-build.log"
    nice ninja -C "$work/llama-build" llama-peer >> "$work/llama-build.log"
fi

target=${CARGO_TARGET_DIR:-target}
# shellcheck disable=SC2068 # An emptied argument vanishes.
exec "$python" peers/llama/turns.py --ours "$target/release/examples/generate" --llama "$work/llama-build/llama-peer" \
    --models "$work/llama-models" $@
