#!/bin/sh
# Builds and runs the tests of the bridge to rocm-rs with the stand-in for ROCm.
set -eu
cd "$(dirname "$0")/../.."
standin=$(cargo xtask standin | tail -n 1)
export SKIP_BINDGEN=1
libraries=""
for library in libamdhip64.so.7 librocblas.so.5 libMIOpen.so.1; do
    libraries="$libraries -C link-arg=$standin/$library"
done
# shellcheck disable=SC2086 # one word per argument
cargo rustc -p ops-rocm --features rocm-rs --test bridge -- $libraries -C link-arg="-Wl,-rpath,$standin"
program=$(ls -t "${CARGO_TARGET_DIR:-target}"/debug/deps/bridge-* | grep -v '\.d$' | head -n 1)
OPS_ROCM_PATH=$standin HIP_STANDIN_REPORT=0 "$program" --test-threads=1
