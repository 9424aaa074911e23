#!/usr/bin/env bash
# Runs the tests of the vector kernels as a 64-bit ARM program with NEON, in QEMU's user mode.
#
# Usage: tools/neon.sh [ARG..]
#   ARG  passed to cargo test (default: -p ops-simd)
# Needs the Rust target aarch64-unknown-linux-gnu, aarch64-linux-gnu-gcc and qemu-aarch64 (Debian: gcc-aarch64-linux-gnu,
# qemu-user). Installs nothing. Emulation shows correctness, not speed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
for program in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" > /dev/null || { echo "$program is missing" >&2; exit 1; }
done
[ -d "$(rustc --print target-libdir --target "$target")" ] || { echo "the Rust target $target is missing: rustup target add $target" >&2; exit 1; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L ${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}"
[ $# -gt 0 ] || set -- -p ops-simd
exec cargo test --target "$target" "$@"
