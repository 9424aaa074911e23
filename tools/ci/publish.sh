#!/usr/bin/env bash
# Rehearses a release, and publishes it if told to. The version is that of the workspace in Cargo.toml.
#
# Usage: tools/ci/publish.sh [--archive FILE] [--tag] [--publish]
#   Checks, in this order, and stops at the first failure:
#     1. the working tree has no changes
#     2. all crates have the version of the workspace, and ask for each other in that version
#     3. CHANGELOG.md has a section `## [VERSION] - DATE` with content, and the tag is free or on this commit
#     4. crates.io has none of our names (after the first release: not in this version)
#     5. the packages are right (tools/ci/packages.sh --verify): sizes, licences, and a program that depends on them alone
#     6. the archive for people with a card is right (tools/ci/release.sh)
#   Nothing leaves this machine, and no tag is made, unless a flag says so.
#   --archive FILE  checks this archive, made before by tools/ci/release.sh, instead of making one
#   --tag           makes the tag vVERSION on this commit, if all checks pass
#   --publish       also uploads the crates to crates.io, in the order of their dependencies; needs `cargo login`. It implies --tag.
#                   An upload cannot be undone. It is refused while `repository` in Cargo.toml is a placeholder.
#
# To release version 0.2.0:
#   - Set `version` in Cargo.toml, in [workspace.package] and for each crate of ours in [workspace.dependencies].
#   - Rename the section [Unreleased] of CHANGELOG.md to [0.2.0] - DATE, and begin a new one.
#   - From the second release on, compare the public interface with that of the release on crates.io, which says whether the version
#     is right: `cargo semver-checks check-release --workspace --exclude ops-cli` (after `cargo install cargo-semver-checks`).
#   - Run `cargo check`, which updates Cargo.lock, and commit. Then run this script, at the end with --publish.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

fail() { echo "tools/ci/publish.sh: $*" >&2; exit 1; }
say() { echo "publish: $*"; }
help() { sed -n '/^# Usage/,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }

archive="" tag="" publish=""
while [ $# -gt 0 ]; do
    case $1 in
        --archive) [ $# -ge 2 ] || { help >&2; exit 2; }; archive=$2; shift ;;
        --tag) tag=yes ;;
        --publish) tag=yes publish=yes ;;
        -h | --help) help; exit 0 ;;
        *) help >&2; exit 2 ;;
    esac
    shift
done

changes=$(git status --porcelain)
[ -z "$changes" ] || fail "the working tree has changes; commit or remove them:
$changes"
commit=$(git rev-parse --short=8 HEAD)
say "1. the working tree is clean, at $commit"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# Members that are published, and what the workspace says about them.
names=""
for manifest in $(git ls-files -- Cargo.toml '*/Cargo.toml' ':!fuzz' ':!peers'); do
    ! grep -q '^publish = false' "$manifest" || continue
    grep -q '^version.workspace = true' "$manifest" || fail "$manifest: got a version of its own, wanted version.workspace = true"
    names+=" $(sed -n '0,/^name = /s/^name = "\(.*\)"/\1/p' "$manifest")"
done
other=$(sed -n '/^\[workspace.dependencies\]/,/^\[/p' Cargo.toml | grep 'path = .*version = ' | grep -vF "version = \"$version\"" || true)
[ -z "$other" ] || fail "Cargo.toml: the workspace has version $version, but asks for another one of:
$other"
say "2. $(echo "$names" | wc -w) crates have version $version:$names"

section=$(awk -v head="## [$version] - " 'index($0, head) == 1 { inside = 1; next } /^## / { inside = 0 } inside && NF' CHANGELOG.md)
[ -n "$section" ] || fail "CHANGELOG.md has no section \`## [$version] - DATE\` with content; rename [Unreleased]"
tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}" || true)
[ -z "$tagged" ] || [ "$tagged" = "$(git rev-parse HEAD)" ] || fail "the tag v$version is on another commit, ${tagged::8}"
say "3. CHANGELOG.md has $(echo "$section" | wc -l) lines on $version; the tag v$version is $([ -n "$tagged" ] && echo here || echo free)"

# The address of a crate in the index of crates.io.
index_of() {
    case ${#1} in
        1 | 2) echo "${#1}/$1" ;;
        3) echo "3/${1::1}/$1" ;;
        *) echo "${1::2}/${1:2:2}/$1" ;;
    esac
}
earlier=$(git tag --list 'v*' | grep -vx "v$version" || true)
for name in $names; do
    answer=$(curl -sS -w '\n%{http_code}' "https://index.crates.io/$(index_of "$name")") || fail "cannot ask crates.io for $name"
    case ${answer##*$'\n'} in
        404) say "   $name is free" ;;
        200)
            [ -n "$earlier" ] || fail "crates.io has a crate $name, which is not ours: nothing was released before; choose another name"
            ! tr -d ' ' <<< "$answer" | grep -qF "\"vers\":\"$version\"" || fail "crates.io already has $name $version"
            ;;
        *) fail "index.crates.io answers ${answer##*$'\n'} for $name" ;;
    esac
done
say "4. crates.io has no other crates of these names, and no version $version of them"
[ -z "$publish" ] || ! grep -q '^repository = .*example\.invalid' Cargo.toml ||
    fail "Cargo.toml: \`repository\` is a placeholder; give it the real address"

tools/ci/packages.sh --verify
say "5. the packages are right"

if [ -n "$archive" ]; then
    tools/ci/release.sh --check "$archive"
else
    archive=$(tools/ci/release.sh | tee /dev/stderr | tail -n 1)
fi
say "6. the archive is right: $archive"

if [ -n "$tag" ]; then
    [ -n "$tagged" ] || git tag -a "v$version" -m "rocm-ops $version"
    say "7. the tag v$version is on $commit; push it with: git push origin v$version"
else
    say "7. no tag was made: --tag makes v$version"
fi
if [ -n "$publish" ]; then
    cargo publish --workspace --locked
    say "8. published $version; attach $archive and its .sha256 to the tag's release page"
else
    say "8. nothing was published: --publish uploads the crates"
fi
