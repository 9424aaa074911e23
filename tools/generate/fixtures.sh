#!/usr/bin/env bash
# Makes the small models of tests/data anew, with the numbers that a correct program computes from them.
#
# tools/generate/fixtures.sh [FOLDER]    FOLDER is tests/data; with another one, the two can be compared
#
# Weights come from seeds, so the models come out as they are in the repository, bit for bit. Numbers may differ in the last digit
# that is written, because other processors and releases of PyTorch add in another order. To make a single model, call the Python script that
# says so in its header. Only packages from PyPI are fetched: they go to FIXTURES_WORK (target/fixtures) and take 6 GB, most of it
# PyTorch. llama.cpp comes as the sources in its Python package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
tools=$PWD
cd "$(git rev-parse --show-toplevel)"
folder=${1:-tests/data}
work=${FIXTURES_WORK:-target/fixtures}
mkdir -p "$work" "$folder/families" "$folder/folders"
work=$(cd "$work" && pwd)
package=llama_cpp_python-0.3.36
python=$work/venv/bin/python

# The releases that the files in the repository were made with.
[ -x "$python" ] || python3 -m venv "$work/venv"
"$python" -c 'import sentencepiece, torch, transformers' 2>/dev/null \
    || "$python" -m pip install --quiet torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0 gguf==0.19.0 \
        numpy==2.4.6 sentencepiece==0.2.3
if ! "$python" -c 'import llama_cpp' 2>/dev/null; then
    export PATH=$work/venv/bin:$PATH
    "$python" -m pip install --quiet cmake ninja scikit-build-core flit_core
    "$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary llama-cpp-python --dest "$work" llama-cpp-python==0.3.36
    tar -xzf "$work/$package.tar.gz" -C "$work"
    CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF" "$python" -m pip install --no-build-isolation "$work/$package" > "$work/build.log"
fi

# More threads add in another order.
export OMP_NUM_THREADS=1
"$python" "$tools/family-fixture.py" "$folder/families"
"$python" "$tools/converted-fixture.py" "$work/$package/vendor/llama.cpp" "$folder/families"
"$python" "$tools/family-fixture.py" --folders "$folder/folders"
"$python" "$tools/encoder-fixture.py" "$folder/folders"
"$python" "$tools/published-logits.py" "$folder"
