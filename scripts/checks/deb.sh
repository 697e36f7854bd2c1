#!/usr/bin/env bash
# Packs the Debian package. Unpacked in a strange place it runs a script, and a C host built against it by pkg-config.
# As root, dpkg installs it as well: into a root of its own, which holds the C library, a shell and Lua beside it and
# where dpkg knows this system's packages, so that what it depends on is checked; there scripts and a C host find it as
# on any Debian system, and dpkg removes it again. lintian looks at it where it is installed.
# Ends with 77 where a program that packing needs is not there. usage: deb.sh BUILD
set -eu
# cpack asks file which files are programs, and dpkg-shlibdeps what they need.
for command in dpkg-deb dpkg-shlibdeps file; do
  command -v $command >/dev/null || { echo "deb: skipped, there is no $command here" && exit 77; }
done
build=$(realpath "$1") checks=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$build" && cpack -G DEB -B "$dir/packed" >"$dir/log" 2>&1) || { cat "$dir/log" && exit 1; }
package=$(echo "$dir"/packed/*.deb)
dpkg-deb -f "$package" Package Version Depends
if command -v lintian >/dev/null; then lintian --allow-root --fail-on error "$package"; fi

dpkg-deb -x "$package" "$dir/unpacked"
env -i "$dir/unpacked/usr/bin/tide" -e 'assert(tide.ones(2):sum():item() == 2)'
"$checks/host.sh" pkgconfig "$dir/unpacked/usr" "$dir/host" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }

[ "$(id -u)" = 0 ] || { echo "deb: not installed into a root of its own, which needs root" && exit 0; }
# The module's place is the installed package's, and no path to the unpacked one is in the program.
program=$dir/04_tensors
# shellcheck disable=SC2046
PKG_CONFIG_PATH=$dir/unpacked/usr/lib/pkgconfig cc -o "$program" "$checks/../examples/embed/04_tensors.c" \
  '-DTIDE_MODULE="/usr/lib/lua/5.4/tide.so"' $(PKG_CONFIG_PATH=$dir/unpacked/usr/lib/pkgconfig pkg-config --cflags --libs tide lua5.4) \
  -lm -ldl -pthread -rdynamic

root=$dir/root
mkdir -p "$root"/{etc,tmp,bin,sbin,usr/bin,lib64,var/lib/dpkg/info,var/lib/dpkg/updates}
cp /var/lib/dpkg/status "$root/var/lib/dpkg/"
cp /sbin/ldconfig "$root/sbin/"
cp /bin/sh "$root/bin/"
cp "$program" "$root/tmp/"
luas=()
for lua in lua5.4 luajit; do
  command -v $lua >/dev/null || continue
  [ $lua = lua5.4 ] || [ -e "$dir/unpacked/usr/lib/lua/5.1/tide.so" ] || continue
  cp "$(command -v $lua)" "$root/usr/bin/$lua"
  luas+=("$root/usr/bin/$lua")
done
libraries=$(ldd /bin/sh "$build/bin/tide" "$program" "${luas[@]}" | grep -oE '/[^ ]+[.]so[^ ]*' | grep -v /libtide | sort -u)
# shellcheck disable=SC2086
cp --parents $libraries "$root"

dpkg --root="$root" -i "$package" 2>"$dir/log" >&2 || { grep -v 'files list file' "$dir/log" && exit 1; }
try() { env -i PATH=/usr/bin:/bin:/sbin chroot "$root" "$@"; }
try tide -e 'assert(tide.ones(2):sum():item() == 2)'
for lua in "${luas[@]}"; do
  try "$(basename "$lua")" -e 'local tide = require "tide"; assert(tide.ones(2):sum():item() == 2)'
done
try /tmp/04_tensors
echo "deb: installed, runs in: tide ${luas[*]##*/} 04_tensors"
dpkg --root="$root" -P tide 2>"$dir/log" >&2 || { grep -v 'files list file' "$dir/log" && exit 1; }
left=$(cd "$root" && find . -path '*tide*' ! -path '*/var/lib/dpkg/*')
[ -z "$left" ] || { echo "deb: removed, but there still are: $left" && exit 1; }
