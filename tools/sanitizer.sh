#!/usr/bin/env bash
# The suite, core and the CPU backends under AddressSanitizer, with the stable toolchain at hand.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitizer
# Build scripts and macros are built for the host without the sanitizer because the target is named.
cargo test --target "$target" -p ops-core -p ops-cpu -p ops-test --lib --tests "$@"
