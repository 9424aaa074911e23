#!/usr/bin/env bash
# Checks that rocm-ops compiles with each feature alone and with none, and that the dependencies of a feature go with it.
#
# tools/ci/features.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

# Crates that a program needs for the ops and the CPU backends alone, rocm-ops included.
most=34

crates() { # a feature, or nothing
    cargo tree --offline --package rocm-ops --no-default-features --features "$1" --edges normal --prefix none | sed 's/ (.*//' | sort -u
}
check() { # a feature, and what it must not bring
    local feature=$1 found
    shift
    cargo check --quiet --package rocm-ops --lib --no-default-features --features "$feature"
    for crate in "$@"; do
        found=$(crates "$feature" | grep "^$crate " || true)
        [ -z "$found" ] || { echo "feature '$feature': got the crate $found, wanted none of $*" >&2; exit 1; }
    done
}

check "" ops-gguf ops-models ops-rocm serde_json
check gguf ops-models ops-rocm tokenizers serde_json
check models ops-rocm tokenizers minijinja chrono
check tokenizer ops-models ops-rocm minijinja chrono safetensors
check chat ops-rocm
check rocm ops-gguf ops-models serde_json
count=$(crates "" | wc -l)
[ "$count" -le "$most" ] || { echo "without features: got $count crates, wanted at most $most" >&2; crates "" >&2; exit 1; }
echo "each feature alone compiles; without features, $count crates of at most $most"
