#!/usr/bin/env bash
# Checks the bindings against the real libraries of ROCm 6.4 (Debian sid) and 7.2 (Debian experimental), without an
# AMD GPU and without installing anything: every function that the bindings name must be exported by both, and the
# headers of both must declare the same functions, types and constants.
#
# Usage: tools/check-rocm-symbols.sh [DIR]
#   DIR  where packages are downloaded and unpacked (default target/rocm-check); what it holds already is used again
# Needs Debian's apt and dpkg, nm, and for the comparison of headers what tools/gen-bindings.sh needs.
# Downloads about 500 MB. Prints what docs/hip-functions.md records. Exits 1 if anything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-target/rocm-check}
mkdir -p "$dir"
failed=0

# fetch SUITE PACKAGE...
fetch() {
    local suite=$1
    shift
    if [ ! -s "$dir/$suite/packages.txt" ]; then
        tools/rocm-debs.sh "$suite" "$dir/$suite" "$@" > "$dir/$suite.log" 2>&1 || { cat "$dir/$suite.log" >&2; exit 1; }
    fi
    echo "$suite: $(paste -sd';' "$dir/$suite/packages.txt" | sed 's/;/, /g')"
}

# symbols SUITE SONAME BINDING...: every name in the bindings' lists is a defined dynamic symbol of the library.
symbols() {
    local suite=$1 soname=$2 list=$3 library
    library=$(find "$dir/$suite/root" -name "$soname" | head -n 1)
    if [ -z "$library" ]; then echo "$suite: no $soname"; failed=1; return; fi
    nm -D --defined-only "$library" | awk '{ sub("@.*", "", $NF); print $NF }' | sort -u > "$dir/exported"
    sed -E 's/ *#.*//; /^$/d' "tools/bindings/$list.txt" | sort -u > "$dir/named"
    local missing
    missing=$(comm -13 "$dir/exported" "$dir/named" | paste -sd' ')
    echo "$suite: $soname exports $(comm -12 "$dir/exported" "$dir/named" | wc -l) of $(wc -l < "$dir/named")${missing:+; lacks $missing}"
    if [ -n "$missing" ]; then failed=1; fi
}

fetch sid libamdhip64-6 libhiprtc6 librocblas4 libmiopen1 libamdhip64-dev librocblas-dev libmiopen-dev
fetch experimental libamdhip64-7 libhiprtc7 librocblas5 libmiopen1 libamdhip64-dev librocblas-dev libmiopen-dev
for check in "sid libamdhip64.so.6 hip" "sid libhiprtc.so.6 hiprtc" "sid librocblas.so.4 rocblas" "sid libMIOpen.so.1 miopen" \
    "experimental libamdhip64.so.7 hip" "experimental libhiprtc.so.7 hiprtc" "experimental librocblas.so.5 rocblas" \
    "experimental libMIOpen.so.1 miopen"; do
    # shellcheck disable=SC2086 # three words each
    symbols $check
done

# The bindings are those of 6.4; what 7.2 declares otherwise is shown for a person to judge.
for suite in sid experimental; do
    echo "declarations against $suite:"
    if tools/gen-bindings.sh --check "$dir/$suite/root/usr/include" > "$dir/$suite.diff" 2>&1; then
        echo "  the same"
    else
        grep -E '^[-+][^-+]' "$dir/$suite.diff" | sed 's/^/  /' || cat "$dir/$suite.diff"
    fi
done
exit $failed
