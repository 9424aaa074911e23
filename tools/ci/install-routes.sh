#!/usr/bin/env bash
# Installs the command `ops` by each route that the documentation offers, each into a new folder, and runs it there.
#
# Usage: tools/ci/install-routes.sh [--debug] [ROUTE..]
#   source   cargo install --path crates/ops-cli, from a clean clone
#   crates   cargo install of the packaged crate, whose dependencies are the other packages: what `cargo install ops-cli` does once the
#            crates are on crates.io
#   archive  tools/ci/release.sh --pack of the program that the first route installed, unpacked. An archive for people with a card is
#            made by tools/ci/release.sh without --pack, which compiles for an older C library and embeds kernels
#   Without ROUTE, all of them. --debug builds without optimisation, to test the routes quickly.
#   Cargo's downloaded crates are used; nothing else of this user or machine is (an empty environment, an empty home).
#   Prints the time of each route, the program's size and version, and what it says.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

fail() { echo "tools/ci/install-routes.sh: $*" >&2; exit 1; }
say() { echo "install: $*"; }

routes=() options=(--quiet --locked)
while [ $# -gt 0 ]; do
    case $1 in
        --debug) options+=(--debug) ;;
        source | crates | archive) routes+=("$1") ;;
        *) sed -n '4,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ ${#routes[@]} -gt 0 ] || routes=(source crates archive)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home"

# Runs cargo as a new user of this machine would. The routes share what they compile of other people's crates.
new_user() {
    env -i PATH="$PATH" HOME="$work/home" CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        CARGO_TARGET_DIR="$work/target" CARGO_INCREMENTAL=0 "$@"
}

source_route() {
    git clone --quiet --depth 1 "file://$PWD" "$work/clone"
    (cd "$work/clone" && new_user cargo install "${options[@]}" --path crates/ops-cli --root "$work/source")
    program=$work/source/bin/ops
}

crates_route() {
    tools/ci/packages.sh --only-pack --out "$work/packages"
    local patches=() package name version
    version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    for package in "$work/packages"/*.crate; do
        tar -C "$work/packages" -xzf "$package"
        name=$(basename "$package" .crate)
        patches+=(--config "patch.crates-io.${name%-"$version"}.path='$work/packages/$name'")
    done
    new_user cargo install "${options[@]/--locked/--offline}" "${patches[@]}" --path "$work"/packages/ops-cli-*/ --root "$work/crates"
    program=$work/crates/bin/ops
}

archive_route() {
    [ -x "$work/source/bin/ops" ] || source_route
    local archive
    archive=$(tools/ci/release.sh --pack "$work/source/bin/ops" --out "$work/archive")
    mkdir "$work/unpacked"
    tar -C "$work/unpacked" -xf "$archive"
    program=$(echo "$work"/unpacked/rocm-ops-*/ops)
}

for route in "${routes[@]}"; do
    say "route $route"
    SECONDS=0 program=""
    "${route}_route"
    [ -x "$program" ] || fail "route $route installed no program"
    say "$(env -i "$program" --version), $(($(stat -c %s "$program") >> 10)) KiB, in $SECONDS s"
    env -i HOME="$work/home" "$program" info | head -n 4
    env -i HOME="$work/home" "$program" test --op softmax --quick | tail -n 1
    env -i HOME="$work/home" "$program" generate --model models/tiny-llama-kjv-q8_0.gguf --max-tokens 8
done
say "all routes work: ${routes[*]}"
