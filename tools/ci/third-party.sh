#!/usr/bin/env bash
# Lists the crates of other projects in a program, with versions and licences, one a line. Downloads those that are missing.
# Usage: tools/ci/third-party.sh MANIFEST
set -euo pipefail
cargo tree --manifest-path "$1" --locked --edges normal --prefix none --format '{p}: {l}' |
    grep -v ' (/' | sed 's/ (proc-macro)//; s/ (\*)$//' | LC_ALL=C sort -u
