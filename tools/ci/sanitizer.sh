#!/usr/bin/env bash
# Runs the suite on Cpu, core, the vector kernels and the parser under AddressSanitizer, with the installed stable toolchain.
# The suite runs each op in about one in four of its types; the tests of the vector kernels run in all.
# --all runs every type. It adds Reference, which has no unsafe code of its own, and thousands of damaged files for the parser, which
# its fuzz target reads under AddressSanitizer, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitizer
# The suite requests absurd sizes, which must be errors of the program and not of the sanitizer.
export ASAN_OPTIONS="allocator_may_return_null=1:${ASAN_OPTIONS:-}"
# Left out, because they test results and not memory use: mutants, and tests that go through every value of a type. Long attention takes too long.
skipped=(--skip mutants:: --skip conversions:: --skip halves:: --skip math:: --skip long_attention::)
if [ "${1:-}" != --all ]; then
    skipped+=(--skip reference_ --skip on_the_reference --skip without_the_level --skip damaged_files_ --skip trace::every_cut)
    export OPS_TEST_ONE_TYPE_IN=4
fi
# Because the target is named, build scripts and macros are built for the host, without the sanitizer.
# ops-test's library tests are left out: it has no unsafe code, and they take long to build.
cargo test --target "$target" -p rocm-ops-core -p ops-cpu -p ops-simd -p ops-gguf -p ops-tests --lib \
    --test core --test simd --test cpu --test hostile --test malformed --test conformance --test laws -- "${skipped[@]}"
