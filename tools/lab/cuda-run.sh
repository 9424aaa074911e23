#!/usr/bin/env bash
# Runs the suite, the golden cases, the decoder and a table of bandwidths on an NVIDIA GPU, through the stand-in's cuda
# engine. That machine needs the driver, libnvrtc and libcublas, but no Rust, compiler or network:
#
#   tools/lab/cuda-run.sh pack FILE.tar.xz   here: builds, and packs what the other machine needs
#   tools/lab/cuda-run.sh run FILE.tar.xz [LOGS]   there, in the project's folder; set ONLY="rows batch" to run only these steps
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage

pack() {
    cargo build --release -p ops-cli
    cargo build --release --example replay
    standin=$(cargo xtask standin | tail -1)
    kit=$(mktemp -d)
    cp target/release/ops target/release/examples/replay "$kit"
    strip "$kit"/{ops,replay}
    cp -r "$standin"/lib*.so.* "$standin"/rocblas "$kit"
    tar -C "$kit" -cJf "$1" .
    rm -r "$kit"
    ls -l "$1"
}

run() {
    kit=$(mktemp -d) logs=${2:-$kit/logs}
    mkdir -p "$logs"
    tar -C "$kit" -xJf "$1"
    for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64 \
        $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null | xargs -r -n1 -I{} find {} -name lib -type d); do
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
    done
    export LD_LIBRARY_PATH OPS_ROCM_PATH=$kit OPS_ROCM_CACHE=$kit/cache HIP_STANDIN_ENGINE=cuda
    # A target without matrix units, because they are emulated lane by lane here, which tests results but not speed.
    export HIP_STANDIN_GFX=gfx1030
    date -u
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
    failed=0
    step() { # name, timeout in seconds, output lines to show, command
        local name=$1 limit=$2 lines=$3 begin=$SECONDS rc=0
        shift 3
        [[ " ${ONLY:-$name} " == *" $name "* ]] || return 0
        # `timeout` cannot run a function.
        if [ "$(type -t "$1")" = function ]; then "$@"; else timeout "$limit" "$@"; fi >"$logs/$name.txt" 2>&1 || rc=$?
        [ "$rc" = 0 ] || failed=1
        echo "== $name: exit $rc after $((SECONDS - begin)) s"
        tail -n "$lines" "$logs/$name.txt"
    }
    step info 20 8 "$kit/ops" info --backend rocm
    HIP_STANDIN_STRICT=1 step golden 150 3 "$kit/ops" replay --backend rocm tests/golden/*.safetensors
    { grep -E ' (fail|error)( |$)' "$logs/golden.txt" 2>/dev/null || true; } | head -20
    HIP_STANDIN_STRICT=1 step suite 150 60 "$kit/ops" test --backend rocm
    for op in matmul linear attention attention_varlen attention_paged; do
        HIP_STANDIN_GFX=gfx1100 HIP_STANDIN_STRICT=1 OPS_ROCM_POLICY='*=hip' \
            step "matrix-$op" 120 4 "$kit/ops" test --backend rocm --op "$op"
    done
    for backend in cpu rocm; do
        step "generate-$backend" 60 2 "$kit/ops" generate --backend "$backend" --model models/tiny-llama-kjv-f16.gguf \
            --prompt "And it came to pass" --temperature 0 --ids --max-tokens 32
    done
    # Under the level batch, rows have the bits that they have alone: of every op, and of 64 texts, whatever is beside them and however
    # their prompts are cut.
    HIP_STANDIN_STRICT=1 step rows 300 1 "$kit/ops" test --backend rocm --rows
    for i in $(seq 64); do echo "Chapter $i of the book of the $((i * i))"; done >"$kit/prompts.txt"
    texts() { # arguments of batch
        timeout 60 "$kit/ops" batch --backend rocm --dtype f16 --model models/tiny-llama-kjv-f16.gguf --prompts "$kit/prompts.txt" --temperature 0 \
            --determinism batch --max-tokens 24 "$@" | sort
    }
    texts_alike() {
        texts --max-batch 64 >"$kit/together.txt" && [ "$(wc -l <"$kit/together.txt")" -ge 64 ] || return 1
        for other in "--max-batch 1" "--max-batch 64 --prefill 3" "--max-batch 7 --prefill 5"; do
            # shellcheck disable=SC2086 # Options and their values.
            texts $other | cmp - "$kit/together.txt" && echo "the same texts with $other" || return 1
        done
    }
    step batch 200 3 texts_alike
    step bench 200 200 "$kit/ops" bench --backend rocm --dtype f16 --dtype f32 --sizes 256M
    exit "$failed"
}

case $1 in
pack) pack "$2" ;;
run) run "$2" "${3:-}" ;;
*) usage ;;
esac
