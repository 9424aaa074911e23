#!/usr/bin/env bash
# Checks that the workspace compiles with the lowest versions of its dependencies that its manifests allow.
#
# Usage: tools/lab/minimal-versions.sh
#   Works on a copy of the tracked files, so Cargo.lock here stays as it is. Only direct dependencies are lowered: bounds of other
#   people's crates are not ours. What is built goes to target/minimal-versions. Downloads old versions of crates.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minimal-versions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z -- ':!tests/data' ':!models' | tar -c --null --files-from=- | tar -C "$work" -x
cd "$work"
# The option is unstable, and stable cargo accepts it with this variable. The check is that of the stable compiler.
RUSTC_BOOTSTRAP=1 cargo update --quiet -Zdirect-minimal-versions
cargo tree --workspace --depth 1 --edges normal,build --prefix none --format '{p}' | grep -v "($work" | sort -u
CARGO_TARGET_DIR=$target cargo check --quiet --workspace --exclude ops-tests --exclude ops-compile-errors \
    --exclude ops-doc-examples --locked
echo "the workspace compiles with the lowest versions of its direct dependencies"
