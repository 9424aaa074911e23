#!/usr/bin/env bash
# The choice of providers by measurement, on an NVIDIA GPU through the stand-in's cuda engine, whose rocBLAS is cuBLAS: a trace of a llama of
# a billion weights is tuned, then the model runs with the built-in order of providers and with the measured one. FILE is what
# `tools/lab/cuda-run.sh pack FILE` made; the other machine needs what it says there, and Python.
#
#   tools/lab/provider-choice.sh FILE.tar.xz [LOGS]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
kit=$(mktemp -d) logs=${2:-$kit/logs}
mkdir -p "$logs"
tar -C "$kit" -xJf "$1"
for folder in /usr/local/nvidia/lib64 /usr/local/cuda/lib64 \
    $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null | xargs -r -n1 -I{} find {} -name lib -type d); do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH OPS_ROCM_PATH=$kit OPS_ROCM_CACHE=$kit/cache
export HIP_STANDIN_ENGINE=${HIP_STANDIN_ENGINE:-cuda} HIP_STANDIN_GFX=gfx1030
# A target without matrix units, which are emulated lane by lane here. The stand-in's rocBLAS has files for other targets only, as AMD's.
touch "$kit/rocblas/library/TensileLibrary_lazy_gfx1030.dat"
date -u
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true

python3 tools/generate/random_llama.py "$kit/f16.gguf"
prompt=$(seq -s, 1 "${PROMPT:-512}")
timeout 300 "$kit/ops" trace "$kit/f16.gguf" --out "$kit/run.optrace" --prompt-ids "$prompt" --tokens 2
timeout 400 "$kit/ops" tune --backend rocm --trace "$kit/run.optrace" --budget-ms "${BUDGET:-200}" | tee "$logs/tune.txt"

run() { # a name, then variables
    local name=$1
    shift
    echo "== $name"
    env "$@" timeout 120 "$kit/ops" generate --backend rocm --dtype f16 --model "$kit/f16.gguf" --prompt-ids "$prompt" --temperature 0 \
        --warm-up --max-tokens 64 --json 2>&1 | tail -n 3 | cut -c1-600 | tee -a "$logs/generate.txt"
}
for tuned in off on; do
    echo "== all calls of the trace, OPS_ROCM_TUNED=$tuned"
    OPS_ROCM_TUNED=$tuned timeout 200 "$kit/ops" replay --backend rocm "$kit/run.optrace" --json >"$logs/replay-$tuned.jsonl" || echo "exit $?"
    python3 - "$logs/replay-$tuned.jsonl" <<'TOTAL'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rows = [row for row in rows if row.get("total_ns")]
by = {}
for row in rows:
    by[row["provider"]] = by.get(row["provider"], 0) + row["total_ns"]
print("ms by provider:", {name: round(ns / 1e6, 2) for name, ns in by.items()}, "in all", round(sum(by.values()) / 1e6, 2))
TOTAL
done
for round in 1 2 3; do
    run "the list, round $round" OPS_ROCM_TUNED=off
    run "what was measured, round $round" OPS_ROCM_TUNED=on
done
run "our kernels only" OPS_ROCM_POLICY='*=hip'
