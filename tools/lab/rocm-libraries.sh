# ROCm's libraries of Debian's packages, for scripts that run hipRTC without a GPU; to be sourced.
# shellcheck shell=bash

# unpack_rocm SUITE: unpacks HIP and hipRTC of sid (ROCm 6.4) or experimental (ROCm 7.2) into target/rocm/SUITE.
unpack_rocm() {
    local packages
    case $1 in
        sid) packages="libamdhip64-6 libhiprtc6" ;;
        experimental) packages="libamdhip64-7 libhiprtc7" ;;
        *) echo "no suite $1: use sid or experimental" >&2; return 2 ;;
    esac
    if [ ! -f "target/rocm/$1/packages.txt" ]; then
        # shellcheck disable=SC2086 # several packages
        tools/lab/rocm-debs.sh --all "$1" "target/rocm/$1" $packages
        rm -rf "target/rocm/$1/apt"
    fi
}

# with_rocm SUITE PROGRAM ...: runs a program with these libraries. The C library is theirs, too. By default, comgr caches what
# it compiled; that is turned off.
with_rocm() {
    local libraries=$PWD/target/rocm/$1/root/usr/lib/x86_64-linux-gnu
    shift
    AMD_COMGR_CACHE=0 OPS_ROCM_PATH=$libraries \
        "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$@"
}
