#!/usr/bin/env bash
# Prints the seconds that hipRTC takes for each unit of kernels that a decoder in f16 loads on first use, one after the other
# and in two processes at a time. Needs no GPU: the libraries are those of Debian's packages. By hand, not in CI.
#
# Usage: tools/lab/first-use.sh [SUITE [GFX[,GFX]]]
#   SUITE  sid (ROCm 6.4) or experimental (ROCm 7.2, the default)
#   GFX    gfx1100,gfx942 by default
set -euo pipefail
cd "$(dirname "$0")/../.."

source tools/lab/rocm-libraries.sh

suite=${1:-experimental} targets=${2:-gfx1100,gfx942}
case $suite in
    sid | experimental) ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
unpack_rocm "$suite"
# hipRTC takes all the time, so this project's own code need not be optimised.
cargo build --quiet --package ops-rocm --example compile_units
compile() {
    with_rocm "$suite" target/debug/examples/compile_units "$@"
}

both=(index-b16 norm-rms-block-f16-f32 rope-f16-f32 copy-b16 attention_mma-mma128-f16 attention_decode-head128-f16 binary-glu-f16 cast-f16)
floats=(matmul-rows-f16-f16 matmul_mma-f16-f16)
blocks=(quant-q4_0 qlinear-row-q4_0-f16 qlinear_mma-q4_0-f16)
for gfx in ${targets//,/ }; do
    for weights in floats blocks; do
        declare -n products=$weights
        echo "$gfx, weights: $weights"
        compile "$gfx" 1 "${both[@]}" "${products[@]}"
    done
    echo "$gfx, weights: floats, on two threads of one process, then in two processes"
    compile "$gfx" 2 "${both[@]}" "${floats[@]}" | tail -n 1
    # About equal halves.
    compile "$gfx" 1 attention_mma-mma128-f16 attention_decode-head128-f16 | tail -n 1 &
    compile "$gfx" 1 "${both[@]:0:4}" "${both[@]:6}" "${floats[@]}" | tail -n 1
    wait
done
