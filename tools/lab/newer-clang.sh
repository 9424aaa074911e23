#!/usr/bin/env bash
# Unpacks clang, lld and LLVM's tools of Debian sid into DIR, for targets that clang 19 does not know, such as gfx950. Installs
# nothing. Prints the name of the compiler, for CLANG:
#
#     CLANG=$(tools/lab/newer-clang.sh) cargo xtask kernels --newer-clang
#     CLANG=$(tools/lab/newer-clang.sh) OPS_ROCM_AOT=gfx950 cargo build --release --features aot
#
# Usage: tools/lab/newer-clang.sh [DIR [VERSION]]
#   DIR      target/clang-VERSION by default; used as it is if it has been unpacked already
#   VERSION  21 by default
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${2:-21} dir=${1:-target/clang-${2:-21}}
if [ ! -x "$dir/bin/clang-$version" ]; then
    tools/lab/rocm-debs.sh --all sid "$dir" "clang-$version" "lld-$version" "llvm-$version" >&2
    rm -rf "$dir/apt"
fi
dir=$(cd "$dir" && pwd)
libraries=$dir/root/usr/lib/x86_64-linux-gnu
programs=$dir/root/usr/lib/llvm-$version
mkdir -p "$dir/bin"
# The programs are for sid's C library, so they are started by its loader. clang would start the loader as its own second
# stage; without canonical prefixes it starts what it was called by, and looks for lld in that folder.
for name in clang:clang-"$version" lld:lld llvm-objdump:llvm-objdump-"$version" llvm-readelf:llvm-readelf-"$version"; do
    cat > "$dir/bin/${name#*:}" <<END
#!/bin/sh
case "${name%:*} \$1" in
    "clang -cc1"*) ;;
    "clang "*) set -- -no-canonical-prefixes "\$@" ;;
esac
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries:$programs/lib --argv0 "\$0" $programs/bin/${name%:*} "\$@"
END
    chmod +x "$dir/bin/${name#*:}"
done
"$dir/bin/clang-$version" --version >/dev/null
echo "$dir/bin/clang-$version"
