#!/usr/bin/env bash
# Runs the ROCm backend's suite on the stand-in (waves of 32, f16; with --all every type, and the golden cases on waves of 64),
# with the stand-in and every kernel under AddressSanitizer. Then runs a kernel with a planted overrun, which must be detected.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
OPS_ROCM_PATH=$(cargo xtask standin --sanitize | tail -n 1)
# The test program is not built with the sanitizer, so the C++ compiler's runtime must be loaded before it.
library=$(${CXX:-g++} -print-file-name=libasan.so)
# With the features that the whole workspace gives its dependencies, so that nothing is built again.
program=$(cargo test --workspace --test suite_on_standin --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$program" ] || cargo test --workspace --test suite_on_standin --no-run # says why there is none
# A process compiles kernels one after the other, which takes most of the time. So two processes share the ops,
# a twelfth at a time; kernels are compiled with -Og, and calls check their accesses, which compile faster than inlined checks.
# Those for waves of 32 and of 64 have different cache keys; kernels without the sanitizer are cached elsewhere.
export OPS_ROCM_PATH OPS_ROCM_CACHE=$target/sanitizer-cache \
    HIP_STANDIN_CXXFLAGS="-fsanitize=address -Og --param asan-instrumentation-with-call-threshold=0"
# The suite requests absurd sizes, which the program must reject. The stand-in itself reports leaks.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0:${ASAN_OPTIONS:-}"
if [ "${1:-}" = --all ]; then export OPS_TEST_ONE_TYPE_IN=1; else export OPS_TEST_DTYPE=f16; fi
cd crates/ops-rocm
seq 12 | xargs -P 2 -I {} env OPS_TEST_PART={}/12 LD_PRELOAD="$library" "$program" suite_on_waves_of_32
[ "${1:-}" != --all ] || LD_PRELOAD=$library "$program" golden_cases_on_waves_of_64

log=$target/sanitizer-rocm.log
if OPS_TEST_OP=silu OPS_TEST_DTYPE=f32 OPS_ROCM_CACHE='' \
    HIP_STANDIN_REPLACE='i < N; i++) out.v[i] = f(in.v[i]...)=>i <= N; i++) out.v[i] = f(in.v[i]...)' \
    LD_PRELOAD=$library "$program" suite_on_waves_of_32 >"$log" 2>&1 || ! grep -q "ERROR: AddressSanitizer" "$log"; then
    echo "tools/ci/sanitizer-rocm.sh: the planted overrun was not detected; $log" >&2
    exit 1
fi
echo "no errors; the planted overrun was detected"
