#!/usr/bin/env bash
# Runs the tests of the vector kernels as a 64-bit ARM program with NEON, in QEMU's user mode.
#
# Usage: tools/lab/neon.sh [ARG..]
#   ARG  passed to cargo test, which runs once, on the processor QEMU_CPU (default: all that QEMU knows)
# Without arguments, all tests of ops-simd run so. Those of quantized products then run on a processor without i8mm, and on one
# without dotprod as well.
# Needs the Rust target aarch64-unknown-linux-gnu, aarch64-linux-gnu-gcc and qemu-aarch64 (Debian: gcc-aarch64-linux-gnu,
# qemu-user). Installs nothing. Emulation shows correctness, not speed.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=aarch64-unknown-linux-gnu
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" > /dev/null || { echo "$program is missing" >&2; exit 1; }
done
[ -d "$(rustc --print target-libdir --target "$target")" ] || { echo "the Rust target $target is missing: rustup target add $target" >&2; exit 1; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L ${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}"
[ $# -eq 0 ] || exec cargo test --target "$target" "$@"
cargo test --target "$target" -p ops-simd
for processor in cortex-a76 cortex-a57; do
    echo "quantized products on $processor"
    QEMU_CPU=$processor cargo test --target "$target" -p ops-simd --test simd -- codes:: quant::
done
