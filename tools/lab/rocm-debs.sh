#!/usr/bin/env bash
# Downloads packages of one Debian suite and unpacks them into DIR/root. Installs nothing and does not change the
# system's package lists. DIR/packages.txt lists the unpacked packages, one "name version" per line.
#
# Usage: tools/lab/rocm-debs.sh [--all] SUITE DIR PACKAGE...
#   SUITE  sid (ROCm 6.4) or experimental (ROCm 7.2)
#   --all  also unpacks all dependencies, down to the C library
# ROCM_DEBIAN_SNAPSHOT, such as 20261121T000000Z, takes the packages from Debian's archive of that day
# (snapshot.debian.org); otherwise they are those of today, from the mirror that this system uses.
# Needs Debian's apt and dpkg, and the Debian archive keyring.
set -euo pipefail

all=no
if [ "${1:-}" = --all ]; then all=yes; shift; fi
if [ $# -lt 3 ]; then sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; fi
suite=$1 dir=$2; shift 2
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
state=$dir/apt
mkdir -p "$state/lists/partial" "$state/debs/partial"

if [ -n "${ROCM_DEBIAN_SNAPSHOT:-}" ]; then
    mirror=http://snapshot.debian.org/archive/debian/$ROCM_DEBIAN_SNAPSHOT
else
    # The mirror that this system already uses.
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null \
        | sed -nE 's,^(URIs:|deb( \[[^]]*\])?) *(https?://[^ ]+/debian)/?( .*)?$,\3,p' | awk 'NR == 1') || true
fi
if [ -z "$mirror" ]; then echo "no Debian mirror in /etc/apt/sources.list*" >&2; exit 1; fi
for archive in $suite sid; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $archive main"
done | sort -u > "$state/sources.list"
: > "$state/status"

isolated_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" -o Dir::State::status="$state/status" \
        -o Dir::Cache::archives="$state/debs" -o APT::Sandbox::User=root -o APT::Default-Release="$suite" \
        -o Acquire::Check-Valid-Until=false "$@"
}

isolated_apt update
# With an empty status file, apt treats nothing as installed and takes every dependency.
if [ $all = yes ]; then
    isolated_apt -y --no-install-recommends --download-only install "$@"
else
    (cd "$state/debs" && isolated_apt download "$@")
fi
: > "$dir/packages.txt"
for deb in "$state"/debs/*.deb; do
    dpkg -x "$deb" "$dir/root"
    dpkg-deb -W --showformat='${Package} ${Version}\n' "$deb" >> "$dir/packages.txt"
done
