#!/usr/bin/env bash
# Builds the book of docs/ with mdBook. Fails on a warning, and on a link in the result that leads to no file.
#
# Usage: tools/ci/book.sh
# Output: target/book, to be opened at target/book/index.html. Links that leave docs/ lead to the files of this checkout or, if
# OPS_BOOK_SOURCE is set, to files below that URL, such as https://example.org/rocm-ops/blob/main.
set -euo pipefail
shopt -s globstar
cd "$(dirname "$0")/../.."

readonly VERSION=0.5.4
fail() { echo "tools/ci/book.sh: $*" >&2; exit 1; }

command -v mdbook >/dev/null || fail "mdbook is missing: cargo install --locked --no-default-features mdbook@$VERSION"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -rf target/book
mdbook build > "$log" 2>&1 || fail "$(cat "$log")"
if grep -qE 'WARN|ERROR' "$log"; then fail "$(cat "$log")"; fi

root=$PWD
cd target/book
pages=0 links=0
for page in **/*.html; do
    # mdBook's own pages.
    case $page in 404.html | toc.html) continue ;; esac
    folder=$(dirname "$page")
    up=../
    for ((slashes = 0; slashes < $(tr -cd / <<< "$page" | wc -c); slashes++)); do up=../$up; done
    # mdBook has renamed *.md to *.html in these, too.
    source=${OPS_BOOK_SOURCE:-${up}..}
    sed -i -E "s,(href=\")$up([^\"]*)\.html,\1$source/\2.md,g; s,(href=\")$up([^.\"][^\"]*)\",\1$source/\2\",g" "$page"
    while read -r link; do
        case $link in *://* | mailto:* | "") continue ;; esac
        links=$((links + 1))
        [ -e "$folder/$link" ] || fail "$page: the link to $link leads nowhere"
    done < <(grep -oE '(href|src)="[^"#]*' "$page" | cut -d'"' -f2 | sort -u)
    pages=$((pages + 1))
done
echo "$root/target/book: $pages pages, $links links"
