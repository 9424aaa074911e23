#!/usr/bin/env bash
# Lints and tests the Python package's crates, builds the wheel, installs it in an empty environment and tests it there. Needs no ROCm, no
# GPU and no PyTorch.
#
# Usage: tools/ci/python.sh [--release | --portable] [--torch PYTHON] [PYTEST OPTIONS]
#          builds the wheel in target/python and tests it. With --release, it is optimised and has the command; with --portable, it is also for
#          glibc 2.28, as it is published, for which zig comes from PyPI. With --torch, the tests run in an environment on top of that of
#          PYTHON, which has PyTorch. With HIP_STANDIN set to the stand-in's folder, they also run on that.
# Output: target/python/wheels/rocm_ops-*.whl
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

readonly MIB=40 FILES="NOTICE THIRD-PARTY.txt LICENSE-APACHE LICENSE-MIT"
fail() { echo "tools/ci/python.sh: $*" >&2; exit 1; }

release="" portable="" torch=""
while [ $# -gt 0 ]; do
    case $1 in
        --release) release=yes ;;
        --portable) release=yes portable=yes ;;
        --torch) [ $# -ge 2 ] || fail "--torch needs the path of a Python"; torch=$2; shift ;;
        *) break ;;
    esac
    shift
done

work=$PWD/target/python
tools=$work/tools
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/python-build CARGO_INCREMENTAL=0
mkdir -p "$work"
if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" -q install maturin==1.16.0
fi
PATH=$tools/bin:$PATH

# What the package has besides its code: the models of this repository, licences, and the list of crates inside.
mkdir -p python/rocm_ops/models
cp models/tiny-llama-kjv-*.gguf python/rocm_ops/models/
cp LICENSE-APACHE LICENSE-MIT python/licenses/
tools/ci/third-party.sh python/Cargo.toml > python/licenses/THIRD-PARTY.txt

rm -rf "$work/wheels"
options=(--manifest-path python/Cargo.toml --out "$work/wheels" --locked)
if [ -n "$portable" ]; then
    "$tools/bin/pip" -q install ziglang==0.17.1
    maturin build --release --zig --compatibility manylinux_2_28 "${options[@]}"
elif [ -n "$release" ]; then
    maturin build --release --compatibility linux "${options[@]}"
else
    # The same code, less optimised where that only costs the build, and without the command, which has tests of its own.
    features=(--no-default-features --features pyo3/abi3-py310)
    maturin build --profile ci --compatibility linux "${features[@]}" "${options[@]}"
    checked=(--quiet --manifest-path python/Cargo.toml --workspace --profile ci --locked "${features[@]}")
    cargo fmt --manifest-path python/Cargo.toml -p rocm-ops-python -p rocm-ops-calls -p rocm-ops-models-by-name --check
    cargo clippy --all-targets "${checked[@]}" -- -D warnings
    cargo test "${checked[@]}"
fi
wheel=$(echo "$work"/wheels/rocm_ops-*.whl)
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le $((MIB << 20)) ] || fail "$wheel has $bytes bytes; the limit is $MIB MiB"
listed=$(python3 -m zipfile -l "$wheel")
for file in $FILES; do
    grep -q "dist-info/licenses/licenses/$file" <<< "$listed" || fail "$wheel lacks $file"
done
grep -q "py.typed" <<< "$listed" || fail "$wheel lacks py.typed"
echo "$wheel: $((bytes >> 10)) KiB of $((MIB << 10))"

venv=$work/venv
rm -rf "$venv"
if [ -n "$torch" ]; then
    "$torch" -m venv --system-site-packages "$venv"
    site=$("$torch" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$site" > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
else
    python3 -m venv "$venv"
fi
"$venv/bin/pip" -q install "$wheel" "pytest==9.2.0" "hypothesis==6.170.17" $([ -n "$torch" ] || echo "numpy==2.4.6")
tests=$PWD/python/tests
# In another folder than python, where Python would find the package without its extension.
cd "$work"
"$venv/bin/python" -m pytest -q -p no:cacheprovider "$tests" "$@"
