#!/usr/bin/env bash
# Fuzzes one target for SECONDS (default 10), with AddressSanitizer, on a stable toolchain. Targets: gguf (the reader, the writer and
# the tokenizers of GGUF files; the default) and optrace (the reader of traces). Needs no cargo-fuzz. New inputs go to fuzz/corpus,
# failing ones to fuzz/artifacts.
# Usage: fuzz/run.sh [TARGET] [SECONDS] [libFuzzer options]    or    fuzz/run.sh [TARGET] FILE...    to run inputs (paths from fuzz/)
# once each
set -euo pipefail
cd "$(dirname "$0")"
target=gguf
if [ -f "fuzz_targets/${1:-}.rs" ]; then
  target=$1
  shift
fi
if [ -f "${1:-}" ]; then
  work=("$@")
else
  work=("corpus/$target" "seeds/$target" -max_len=8192 -max_total_time="${1:-10}" -print_final_stats=1 "${@:2}")
fi
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "corpus/$target" "artifacts/$target"

# The sanitizer is the one unstable flag. With --target, build scripts and macros are built without these flags.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

# An input is at most 8 KiB: an allocation of 16 MiB for it would be one that the file talked the reader into.
cargo run --quiet --release --target "$host" --bin "$target" -- \
  -dict="$target.dict" -artifact_prefix="artifacts/$target/" -malloc_limit_mb=16 -rss_limit_mb=2048 -timeout=10 \
  "${work[@]}"
