#!/usr/bin/env bash
# Checks the bindings against the real libraries of ROCm 6.4 (Debian sid) and 7.2 (Debian experimental). Needs no AMD GPU
# and installs nothing. Both must export every function that the bindings name, and the headers of both must declare the
# same functions, types and constants.
#
# Usage: tools/lab/check-rocm-symbols.sh [DIR]
#   DIR  folder for downloaded and unpacked packages (default rocm-check in the target folder); existing contents are
#        reused, so name another one for another snapshot
# The packages are those of a fixed day in Debian's archive (ROCM_DEBIAN_SNAPSHOT names another, such as 20261121T000000Z), so
# that a later run checks the same libraries.
# Needs Debian's apt and dpkg, nm, and the requirements of tools/generate/gen-bindings.sh to compare the headers.
# Downloads 1.2 GB, needs 10 GB. Prints what docs/hip-functions.md records. Exits 1 if anything is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Checked before 1.2 GB are downloaded.
for needed in apt-get dpkg dpkg-deb nm cargo rustfmt "${BINDGEN:-bindgen}"; do
    command -v "$needed" > /dev/null || {
        echo "$0: there is no $needed; bindgen comes with 'cargo install bindgen-cli' (BINDGEN names another path)" >&2
        exit 2
    }
done
# The day on which the committed record was made.
export ROCM_DEBIAN_SNAPSHOT=${ROCM_DEBIAN_SNAPSHOT:-20261121T000000Z}
target=${CARGO_TARGET_DIR:-target}
dir=${1:-$target/rocm-check}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
failed=0

# fetch SUITE NAME OPTION PACKAGE...: unpacks packages into DIR/SUITE/NAME.
fetch() {
    local suite=$1 to=$dir/$1/$2 option=$3
    shift 3
    if [ ! -s "$to/packages.txt" ]; then
        mkdir -p "$to"
        tools/lab/rocm-debs.sh $option "$suite" "$to" "$@" > "$to/log" 2>&1 || { cat "$to/log" >&2; exit 1; }
    fi
    for package in "$@"; do grep "^${package%%=*} " "$to/packages.txt" | sed "s/^/$suite: /"; done
}

# symbols SUITE SONAME LIST: checks that every name in the list is a defined dynamic symbol of the library.
symbols() {
    local suite=$1 soname=$2 list=$3 library
    library=$(find "$dir/$suite/libraries/root" -name "$soname" | head -n 1)
    if [ -z "$library" ]; then echo "$suite: no $soname"; failed=1; return; fi
    nm -D --defined-only "$library" | awk '{ sub("@.*", "", $NF); print $NF }' | sort -u > "$dir/exported"
    sed -E 's/ *#.*//; /^$/d' "tools/generate/bindings/$list.txt" | sort -u > "$dir/named"
    local missing
    missing=$(comm -13 "$dir/exported" "$dir/named" | paste -sd' ')
    echo "$suite: $soname exports $(comm -12 "$dir/exported" "$dir/named" | wc -l) of $(wc -l < "$dir/named")${missing:+; lacks $missing}"
    if [ -n "$missing" ]; then failed=1; fi
}

# open_them SUITE: opens the libraries with this project's loader, using the C library that they were built for.
open_them() {
    local libraries=$dir/$1/libraries/root/usr/lib/x86_64-linux-gnu
    OPS_ROCM_PATH=$libraries "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \
        "$target/debug/examples/libraries" --compile | sed "s,$libraries/,,; s/^/$1: /" || failed=1
}

headers="libamdhip64-dev librocblas-dev libhipblaslt-dev libhipblas-common-dev libmiopen-dev librccl-dev"
fetch sid libraries --all libamdhip64-6 libhiprtc6 librocblas4 libhipblaslt1 libmiopen1 librccl1
# shellcheck disable=SC2086 # one word per package
fetch sid headers "" $headers
fetch experimental libraries --all libamdhip64-7 libhiprtc7 librocblas5 libhipblaslt1 libmiopen1 librccl1
# shellcheck disable=SC2086
fetch experimental headers "" $headers
for check in "sid libamdhip64.so.6 hip" "sid libhiprtc.so.6 hiprtc" "sid librocblas.so.4 rocblas" \
    "sid libhipblaslt.so.1 hipblaslt" "sid libMIOpen.so.1 miopen" "sid librccl.so.1 rccl" \
    "experimental libamdhip64.so.7 hip" "experimental libhiprtc.so.7 hiprtc" "experimental librocblas.so.5 rocblas" \
    "experimental libhipblaslt.so.1 hipblaslt" "experimental libMIOpen.so.1 miopen" "experimental librccl.so.1 rccl"; do
    # shellcheck disable=SC2086 # three words per argument
    symbols $check
done
cargo build --quiet --package ops-rocm --example libraries
open_them sid
open_them experimental

# The bindings are generated from 6.4. Differences in 7.2 are printed for a person to judge.
for suite in sid experimental; do
    echo "declarations against $suite:"
    if tools/generate/gen-bindings.sh --check "$dir/$suite/headers/root/usr/include" > "$dir/$suite.diff" 2>&1; then
        echo "  the same"
    else
        grep -E '^[-+][^-+]' "$dir/$suite.diff" | sed 's/^/  /' || cat "$dir/$suite.diff"
    fi
done
exit $failed
