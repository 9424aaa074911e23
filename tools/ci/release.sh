#!/usr/bin/env bash
# Makes the archive for people with a card, or checks one. Needs no ROCm and no GPU.
#
# Usage: tools/ci/release.sh [--targets LIST] [--out DIR]
#          builds `ops` with kernels of the targets (default: those that are embedded by default, and gfx10-1-generic) for a C library of
#          version 2.28 and packs it. Needs clang-19, lld-19, and cargo-zigbuild with zig, which it takes from PyPI if they are missing.
#          Code objects are kept in target/code-objects, so an interrupted run goes on where it stopped.
#        tools/ci/release.sh --pack PROGRAM [--out DIR]
#          packs a program that was built before
#        tools/ci/release.sh --check ARCHIVE [--targets LIST] [--root TREE] [--glibc VERSION]
#          checks size, checksum, files, the C library that the program needs, and the embedded kernels. Then runs `ops check` from the
#          archive in an empty environment; with --root, as root in this tree of another distribution, for example one made by
#          `tools/lab/rocm-debs.sh --all bullseye DIR libc6` (DIR/root)
# Output: DIR/rocm-ops-VERSION-x86_64-linux.tar.xz, and the same with .sha256. DIR is target/release-archive by default.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

readonly MIB=40 TARGET=x86_64-unknown-linux-gnu
readonly FILES="LICENSE-APACHE LICENSE-MIT README.txt models/tiny-llama-kjv-f16.gguf ops report.sh"

fail() { echo "tools/ci/release.sh: $*" >&2; exit 1; }
usage() { sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# The targets with "yes" in the last column of the table, and one for old cards that hipRTC of ROCm 7 may not serve.
default_targets() {
    awk -F'|' '/^\| gfx/ && $(NF - 1) ~ /yes/ { gsub(/ /, "", $2); printf "%s,", $2 } END { print "gfx10-1-generic" }' docs/ahead-of-time.md
}

# Builds `ops` and prints its path.
build() {
    if ! command -v cargo-zigbuild >/dev/null; then
        local tools=$PWD/target/zigbuild
        [ -x "$tools/bin/cargo-zigbuild" ] || python3 -m venv "$tools"
        "$tools/bin/pip" -q install cargo-zigbuild==0.24.1 ziglang==0.17.1 >&2
        PATH=$tools/bin:$PATH
    fi
    OPS_ROCM_AOT=$targets OPS_ROCM_AOT_OBJECTS=${OPS_ROCM_AOT_OBJECTS:-$PWD/target/code-objects} \
        cargo zigbuild --release --locked -p ops-cli --features aot --target "$TARGET.$glibc" >&2
    echo "${CARGO_TARGET_DIR:-target}/$TARGET/release/ops"
}

# Packs a program.
pack() {
    local program=$1 name=rocm-ops-$version-x86_64-linux
    local folder=$work/$name
    mkdir -p "$folder/models" "$out"
    strip -o "$folder/ops" "$program"
    cp LICENSE-APACHE LICENSE-MIT tools/ci/release/README.txt tools/ci/release/report.sh "$folder/"
    cp models/tiny-llama-kjv-f16.gguf "$folder/models/"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$name" |
        xz -T0 "${OPS_RELEASE_XZ:--9}" > "$out/$name.tar.xz"
    (cd "$out" && sha256sum "$name.tar.xz" > "$name.tar.xz.sha256")
    echo "$out/$name.tar.xz"
}

# The highest version of the C library among a program's symbols.
glibc_of() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1; }

# Checks an archive without running anything, and unpacks it into $work.
check_contents() {
    local archive=$1 bytes files needed foreign
    bytes=$(stat -c %s "$archive")
    [ "$bytes" -le $((MIB << 20)) ] || fail "$archive has $bytes bytes; the limit is $MIB MiB"
    (cd "$(dirname "$archive")" && sha256sum --quiet -c "$(basename "$archive").sha256" 2>/dev/null) ||
        fail "$archive does not have the checksum in $archive.sha256"
    tar -C "$work" -xf "$archive"
    unpacked=$(echo "$work"/rocm-ops-*)
    files=$(cd "$unpacked" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort | paste -sd' ')
    [ "$files" = "$FILES" ] || fail "$archive contains: $files; wanted: $FILES"
    needed=$(glibc_of "$unpacked/ops")
    [ "$(printf '%s\n' "$needed" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] ||
        fail "ops in $archive needs glibc $needed; the limit is $glibc"
    foreign=$(objdump -p "$unpacked/ops" | awk '/NEEDED/ { print $2 }' |
        grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|libgcc_s)\.so\.' || true)
    [ -z "$foreign" ] || fail "ops in $archive needs more than the C library and libgcc_s: $foreign"
    echo "size: $((bytes >> 10)) KiB of $((MIB << 10)); checksum, files: ok; glibc: $needed of $glibc"
}

# Runs the unpacked program in an empty environment.
run_alone() {
    local root=$1 folder=$unpacked enter=() place status=0
    place="this system, in an empty environment"
    if [ -n "$root" ]; then
        folder=$(mktemp -d "$root/rocm-ops.XXXXXX")
        cp -r "$unpacked"/. "$folder"
        inside_root=$folder
        # The program starts itself by /proc/self/exe, with /dev/null as input.
        mkdir -p "$root/proc" "$root/dev"
        [ -e "$root/dev/null" ] || mknod -m 666 "$root/dev/null" c 1 3
        mount -t proc proc "$root/proc"
        mounted=$root/proc
        place="$root, as its root"
        enter=("$(command -v chroot)" "$root")
    fi
    inside() { env -i "${enter[@]}" "${folder#"$root"}/ops" "$@"; }
    inside test --op softmax --quick >/dev/null || fail "ops test --op softmax ends with $? in $place"
    inside info --json > "$work/info.json" || fail "ops info ends with $? in $place"
    local embedded
    embedded=$(grep -o '"embedded":{"targets":\[[^]]*\]' "$work/info.json" | grep -o 'gfx[^"]*' | LC_ALL=C sort | paste -sd, || true)
    wanted=$(echo "$targets" | tr , '\n' | LC_ALL=C sort | paste -sd,)
    [ "$embedded" = "$wanted" ] || fail "embedded targets: ${embedded:-none}; wanted: $wanted"
    # 2: the machine has no card. The search says which libraries it tried to open.
    inside check --level 1 --out "${folder#"$root"}" > "$work/check.out" 2>&1 || status=$?
    case $status in
        0 | 1) ;;
        2) grep -q 'cannot load the HIP runtime' "$folder/report.md" || fail "ops check found no card, and does not say why: $(cat "$work/check.out")" ;;
        *) fail "ops check ends with $status in $place: $(cat "$work/check.out")" ;;
    esac
    grep -q '"schema": 1' "$folder/report.json" || fail "ops check wrote no report in $place"
    echo "runs in $place: ops check ends with $status"
}

mode=make out=target/release-archive glibc=2.28 root="" subject=""
while [ $# -gt 0 ]; do
    case $1 in
        --targets | --out | --root | --glibc) [ $# -ge 2 ] || usage; declare "${1#--}=$2"; shift ;;
        --pack | --check) [ $# -ge 2 ] || usage; mode=${1#--} subject=$2; shift ;;
        *) usage ;;
    esac
    shift
done
: "${targets=$(default_targets)}"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
work=$(mktemp -d)
mounted="" inside_root=""
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$work" "$inside_root"' EXIT
case $mode in
    pack) pack "$subject" ;;
    make)
        program=$(build)
        archive=$(pack "$program")
        check_contents "$archive"
        run_alone "$root"
        echo "$archive"
        ;;
    check)
        check_contents "$subject"
        run_alone ""
        [ -z "$root" ] || run_alone "$(cd "$root" && pwd)"
        ;;
esac
