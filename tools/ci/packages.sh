#!/usr/bin/env bash
# Packs every crate that can be published, and uses the packages as a program elsewhere would.
#
# Usage: tools/ci/packages.sh [--verify] [--only-pack] [--out DIR] [MODEL]
#   Packs the crates, and checks the size of each and that it has a README and both licences. Then unpacks them in a temporary
#   folder outside the repository, where a program depends on them alone: the packaged examples/generate.rs, which generates
#   text with MODEL (default: models/tiny-llama-kjv-q8_0.gguf). There, the packaged `ops` is also compiled, by cargo check. Every
#   package must be used by one of the two.
#   --verify     builds the packaged `ops` as well, which tests an op; and cargo builds each package by itself, as cargo publish does
#   --only-pack  packs and checks, but builds nothing
#   --out        keeps the packages in DIR
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

# The limit of crates.io.
readonly MIB=10

fail() { echo "tools/ci/packages.sh: $*" >&2; exit 1; }
usage() { sed -n '4,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

verify="" only_pack="" out="" model=$PWD/models/tiny-llama-kjv-q8_0.gguf
while [ $# -gt 0 ]; do
    case $1 in
        --verify) verify=yes ;;
        --only-pack) only_pack=yes ;;
        --out) [ $# -ge 2 ] || usage; out=$2; shift ;;
        -*) usage ;;
        *) model=$(realpath "$1") ;;
    esac
    shift
done
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Cargo packs members with `publish = false` too, unless they are excluded. Those outside the workspace are in folders of their own.
excluded=()
for manifest in $(git grep -l '^publish = false' -- '*Cargo.toml' ':!fuzz' ':!peers'); do
    excluded+=(--exclude "$(sed -n '0,/^name = /s/^name = "\(.*\)"/\1/p' "$manifest")")
done
rm -rf "$target/package"
unverified=(--no-verify)
[ -z "$verify" ] || unverified=()
# Without the tests and the examples of crates, about which cargo warns. Local changes are packed, because CI is not the only user.
cargo package --workspace "${excluded[@]}" --quiet --allow-dirty --locked "${unverified[@]}" 2> "$work/log" ||
    fail "cargo package failed:
$(cat "$work/log")"

names=()
for package in "$target"/package/*.crate; do
    name=$(basename "$package" .crate)
    bytes=$(stat -c %s "$package")
    [ "$bytes" -le $((MIB << 20)) ] || fail "$name has $bytes bytes; the limit is $MIB MiB"
    mkdir -p "$work/packages"
    # With today's dates: those in packages are always the same, so cargo would not see that a file has changed since the last run.
    tar -C "$work/packages" -xmzf "$package"
    for file in LICENSE-APACHE LICENSE-MIT; do
        cmp -s "$file" "$work/packages/$name/$file" || fail "$name: its $file is not that of the repository"
    done
    [ -s "$work/packages/$name/README.md" ] || fail "$name has no README.md"
    printf '%6d KiB  %s\n' $((bytes >> 10)) "$name"
    names+=("$name")
    if [ -n "$out" ]; then mkdir -p "$out"; cp "$package" "$out/"; fi
done
[ -z "$only_pack" ] || exit 0

# The program. Dependencies from elsewhere have the versions that the workspace has. Nothing is taken from the workspace's target folder:
# there, its own tools give such dependencies other features.
mkdir -p "$work/program/src"
cp "$work"/packages/rocm-ops-[0-9]*/examples/generate.rs "$work/program/src/main.rs"
cp Cargo.lock "$work/"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
cat > "$work/program/Cargo.toml" << TOML
[package]
name = "program"
edition = "2024"

[dependencies]
rocm-ops = "$version"
TOML
{
    echo "[workspace]"
    echo "members = ['program', 'packages/ops-cli-$version']"
    echo "resolver = '3'"
    echo "[profile.dev]"
    echo "debug = false"
    echo "[patch.crates-io]"
    for name in "${names[@]}"; do
        echo "${name%-"$version"} = { path = 'packages/$name' }"
    done
} > "$work/Cargo.toml"
cd "$work"
export CARGO_TARGET_DIR=$target/packages
run_cargo() { cargo "$@" --quiet 2> "$work/log" || fail "cargo $*: $(cat "$work/log")"; }
run_cargo build -p program
if [ -n "$verify" ]; then run_cargo build -p ops-cli; else run_cargo check -p ops-cli; fi

# Nothing but the packages: a crate that neither program needs would not have been compiled.
cargo tree --offline -p program -p ops-cli --edges normal,build --prefix none > "$work/tree" 2> /dev/null
for name in "${names[@]}"; do
    grep -q "^${name%-"$version"} v$version ($work/packages/" "$work/tree" || fail "$name: no program here uses the package"
done
if grep "^rocm-ops v.*$version" "$work/tree" | grep -qv "$work/packages/"; then fail "the program uses the repository"; fi

text=$("$target/packages/debug/program" --model "$model") || fail "the program that depends on the packages ends with $?"
[ "$(echo "$text" | wc -w)" -ge 20 ] || fail "the program that depends on the packages generated only: $text"
[ -z "$verify" ] || "$target/packages/debug/ops" test --op softmax --quick > /dev/null || fail "the packaged ops test ends with $?"
echo "$text"
[ -n "$verify" ] && ops="tests an op" || ops=compiles
echo "${#names[@]} packages; a program that depends on them alone generates text; the packaged ops $ops"
