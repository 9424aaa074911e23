#!/usr/bin/env bash
# Compiles every kernel for every recorded device with the hipRTC of ROCm 6.4 and of 7.2, as a device's first use does, and
# records registers, occupancy, spills and FLAT instructions in kernels/resources-hiprtc.tsv. Lists the kernels with fewer waves
# per SIMD than clang's. Needs no GPU: the libraries are those of Debian's packages. By hand, not in CI: about 90 s a target on
# two cores. `cargo xtask kernels --document` then writes the table in docs/kernels.md.
#
# Usage: tools/lab/hiprtc-registers.sh [--family FAMILY[,FAMILY]] [GFX[,GFX]]
#   --family    only these families of kernels; all others keep their rows
#   GFX         only these targets, with features as in gfx942:sramecc+:xnack-; nothing is recorded then
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/lab/rocm-libraries.sh

units=('*') of_families=() out=target/hiprtc
if [ "${1:-}" = --family ]; then
    of_families=(--family "$2") units=()
    # All units of a family.
    for family in ${2//,/ }; do units+=("$family?"); done
    shift 2
fi
targets=${1:-recorded}
for suite in sid experimental; do unpack_rocm "$suite"; done
cargo build --quiet --package ops-rocm --example compile_units
rm -rf "$out"

compile() {
    local suite=$1 root llvm
    mkdir -p "$out/$suite"
    root=target/rocm/$suite
    llvm=$(sed -nE 's/^libllvm[0-9]+ ([0-9]+:)?([0-9.]+)-.*/LLVM \2/p' "$root/packages.txt")
    sed -nE "s/^libhiprtc[0-9]+ (([0-9]+\.[0-9]+)[0-9.]*)-.*/\2: hipRTC \1, $llvm/p" "$root/packages.txt" > "$out/$suite/compiler.txt"
    with_rocm "$suite" target/debug/examples/compile_units --out "$out/$suite" "$targets" 1 "${units[@]}" > "$out/$suite/seconds.txt"
    tail -n 1 "$out/$suite/seconds.txt"
}
# comgr compiles one source at a time per process.
compile sid & first=$!
compile experimental
wait "$first"

# gfx950 needs a newer disassembler than clang 19's.
CLANG=$(tools/lab/newer-clang.sh)
export CLANG
record=--record
if [ $# -gt 0 ]; then record=; fi
cargo xtask kernels --hiprtc "$out" "${of_families[@]}" $record
