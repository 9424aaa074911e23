#!/usr/bin/env bash
# Writes the table in docs/hip-functions.md: every bound function, and the files of crates/ops-rocm that call it.
#
# Usage: tools/ci/list-hip-functions.sh [--check]
#   --check  writes nothing; exits 1 with the difference if the committed table is out of date
set -euo pipefail
cd "$(dirname "$0")/../.."
page=docs/hip-functions.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# callers FUNCTION: the files that call the method, ignoring comments.
callers() {
    { grep -rlE --include='*.rs' "^[^/]*\.(r#)?$1\(" crates/ops-rocm/src 2> /dev/null || true; } \
        | sed 's,^crates/ops-rocm/src/,,' | sort | sed 's/.*/`&`/' | paste -sd' '
}

called=0 bound=0
for library in hip:HIP hiprtc:hipRTC rocblas:rocBLAS hipblaslt:hipBLASLt miopen:MIOpen rccl:RCCL; do
    printf '\n### %s\n\n| function | called by ops-rocm in |\n|---|---|\n' "${library#*:}"
    while read -r name; do
        where=$(callers "$name")
        printf '| `%s` | %s |\n' "$name" "$where"
        bound=$((bound + 1))
        if [ -n "$where" ]; then called=$((called + 1)); fi
    done < <(sed -E 's/ *#.*//; /^$/d' "tools/generate/bindings/${library%%:*}.txt")
done > "$work/tables"

{
    sed '/^## Functions$/q' "$page"
    printf '\n%d functions are bound, %d of them called. Written by `tools/ci/list-hip-functions.sh`.\n' "$bound" "$called"
    cat "$work/tables"
} > "$work/page"

if [ "${1:-}" = --check ]; then
    diff -u "$page" "$work/page" || { echo "$page is out of date: run tools/ci/list-hip-functions.sh" >&2; exit 1; }
else
    cp "$work/page" "$page"
fi
