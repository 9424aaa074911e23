#!/usr/bin/env bash
# Runs four threads that use the ROCm backend on the stand-in, with stubbed launches, and a group of two devices, under valgrind's drd.
# drd reports data that two threads access without ordering. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v valgrind >/dev/null || { echo "tools/ci/threads.sh: no valgrind (Debian: apt-get install valgrind)" >&2; exit 1; }
OPS_ROCM_PATH=$(cargo xtask standin | tail -n 1)
target=${CARGO_TARGET_DIR:-target}
export OPS_ROCM_PATH OPS_ROCM_CACHE=$target/threads-cache HIP_STANDIN_LAUNCH=stub
# With the same options as the tests, so that nothing is built again.
cargo build --profile test --workspace --example threads --example collectives
program=$target/debug/examples/threads
"$program" # compiles the kernels, which valgrind need not watch
watched() {
    valgrind --quiet --tool=drd --error-exitcode=9 --suppressions=tools/ci/threads.supp --log-file="$target/threads.log" "$@"
}
watched "$program" || { cat "$target/threads.log"; exit 1; }
# Verify that the check can fail.
if watched "$program" --race; then
    echo "tools/ci/threads.sh: the planted race was not detected" >&2
    exit 1
fi
unset HIP_STANDIN_LAUNCH
export HIP_STANDIN_DEVICES=gfx1100,gfx1100 OPS_ROCM_PEERS=direct
group=$target/debug/examples/collectives
"$group" --brief > /dev/null # compiles the kernels
watched "$group" --brief || { cat "$target/threads.log"; exit 1; }
echo "no race; the planted one was detected"
