#!/usr/bin/env bash
# Builds the benchmark of llama.cpp's CUDA backend from the source archive of its Python package, without the network. None of its code is in
# this repository. The last line is the path of the program, which `tools/lab/decode.sh` takes as LLAMA_BENCH.
#
#   tools/lab/llama-cuda.sh trim llama_cpp_python-VERSION.tar.gz FILE.tar.xz   here: leaves out what the CUDA backend does not need
#   tools/lab/llama-cuda.sh build FILE.tar.xz FOLDER       on the machine with the GPU: needs CUDA's compiler, CMake and Ninja
set -euo pipefail
[ $# = 3 ] || { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
case $1 in
trim)
    archive=$(realpath "$2") out=$(realpath -m "$3") folder=$(mktemp -d)
    trap 'rm -r "$folder"' EXIT
    tar -C "$folder" --strip-components=2 -xzf "$archive" --wildcards '*/vendor/llama.cpp'
    cd "$folder/llama.cpp"
    rm -rf docs models benches media tests examples tools/server/{public*,webui} ggml/src/ggml-{vulkan,sycl,opencl,hexagon,metal,webgpu,cann}
    tar -C "$folder" -cJf "$out" llama.cpp
    ls -l "$out"
    ;;
build)
    mkdir -p "$3"
    tar -C "$3" -xJf "$2"
    cd "$3/llama.cpp"
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURE:-90}" \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF >build.log 2>&1 ||
        { tail -n 30 build.log >&2; exit 1; }
    ninja -C build llama-bench >>build.log 2>&1 || { tail -n 30 build.log >&2; exit 1; }
    echo "$PWD/build/bin/llama-bench"
    ;;
*) exit 2 ;;
esac
