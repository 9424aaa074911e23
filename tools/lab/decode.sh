#!/usr/bin/env bash
# Decoding on an NVIDIA GPU through the stand-in's cuda engine: the suites of attention, a table of its times with few queries, in
# calls that rotate through 768 MiB, and the steps of a llama of a billion weights, recorded and not. FILE is what
# `tools/lab/cuda-run.sh pack FILE` made; the other machine needs what it says there, and Python. STEPS="" leaves the model out. The same model is
# decoded by llama.cpp if LLAMA_BENCH is its benchmark (tools/lab/llama-cuda.sh), and by PyTorch if Python has it.
#
#   tools/lab/decode.sh FILE.tar.xz [LOGS]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '7s/^# *//p' "$0" >&2; exit 2; }
kit=$(mktemp -d) logs=${2:-$kit/logs}
mkdir -p "$logs"
tar -C "$kit" -xJf "$1"
for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64 \
    $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null | xargs -r -n1 -I{} find {} -name lib -type d); do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH OPS_ROCM_PATH=$kit OPS_ROCM_CACHE=$kit/cache
export HIP_STANDIN_ENGINE=${HIP_STANDIN_ENGINE:-cuda} HIP_STANDIN_GFX=gfx1030
date -u
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true

bench() { # op, type, then --shape arguments
    local op=$1 type=$2
    shift 2
    timeout 90 "$kit/ops" bench --backend rocm --op "$op" --dtype "$type" --rotate "${ROTATE:-768M}" "$@" 2>&1 |
        tee -a "$logs/bench.txt" | grep -E "^(attention|error)" || echo "$op $type $*: no result"
}
[ "${SUITES:-1}" = 0 ] || for op in attention attention_paged attention_varlen; do
    HIP_STANDIN_STRICT=1 timeout 150 "$kit/ops" test --backend rocm --op "$op" >"$logs/suite-$op.txt" 2>&1 || echo "suite of $op: exit $?"
    tail -n 2 "$logs/suite-$op.txt"
done
for keys in ${KEYS:-4096 32768}; do
    for n in ${BATCHES:-1 8 64}; do
        # 8 GiB take a minute to make.
        [ $((n * keys)) -le 1048576 ] || continue
        for type in f16 bf16; do
            blocks=$((keys / 16))
            bench attention $type --shape "$n,32,1,128" --shape "k=$n,8,$keys,128"
            bench attention_paged $type --shape "$n,32,128" --shape "k=$((n * blocks)),16,8,128" \
                --shape "block_table=$n,$blocks" --shape "lengths=$n" --shape "cu_q=$((n + 1))"
            bench attention_varlen $type --shape "$n,32,128" --shape "k=$((n * keys)),8,128" \
                --shape "cu_q=$((n + 1))" --shape "cu_k=$((n + 1))"
        done
    done
done

# Our own products, because a library's are not recorded.
if [ -n "${STEPS=16 2048}" ]; then
    export OPS_ROCM_POLICY='linear=hip;matmul=hip'
    python3 tools/generate/random_llama.py "$kit/f16.gguf"
    for type in ${QUANTIZED=q8_0 q4_0 q4_k_m}; do
        "$kit/ops" quantize "$kit/f16.gguf" "$kit/$type.gguf" --type "$type" | tail -n 1
    done
    for type in f16 ${QUANTIZED=}; do
        for prompt in $STEPS; do
            for level in ${LEVELS:-run batch}; do
                echo "== a llama of 1.1 billion weights in $type after $prompt tokens, determinism $level"
                timeout 100 "$kit/replay" --backend rocm --model "$kit/$type.gguf" --determinism "$level" \
                    --prompt "$prompt" --tokens 64 2>&1 | tee -a "$logs/steps.txt" || echo "no result"
            done
        done
        [ -z "${LLAMA_BENCH:-}" ] || timeout 200 "$LLAMA_BENCH" -m "$kit/$type.gguf" -ngl 99 -fa 1 -p 0 -n 64 -d "${STEPS// /,}" -r 5 2>&1 |
            tee -a "$logs/llama.txt" | grep '^|' || echo "no result of llama.cpp"
    done
    # shellcheck disable=SC2086 # Numbers.
    python3 tools/lab/decode_torch.py $STEPS || echo "no result of PyTorch"
    rm "$kit"/*.gguf
fi
