#!/usr/bin/env bash
# A release's Debian packages. Unpacked in a strange place they run a script, and a C host built against them by pkg-config.
# As root, dpkg installs them as well: into a root of its own, which holds the C library, a shell and Lua beside them and
# where dpkg knows this system's packages, so that what they depend on is checked; there scripts and a C host find tide as
# on any Debian system, and dpkg removes it again. lintian looks at the packages where it is installed.
# Ends with 77 where a program that packing needs is not there. usage: deb.sh BUILD RELEASE
set -eu
# cpack asks file which files are programs, and dpkg-shlibdeps what they need.
for command in dpkg-deb dpkg-shlibdeps file; do
  command -v $command >/dev/null || { echo "deb: skipped, there is no $command here" && exit 77; }
done
build=$(realpath "$1") release=$(realpath "$2") checks=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
packages=("$release"/tide_*.deb)
for cuda in "$release"/tide-cuda_*.deb; do [ ! -e "$cuda" ] || packages+=("$cuda"); done
for package in "${packages[@]}"; do
  dpkg-deb -f "$package" Package Version Depends
  if command -v lintian >/dev/null; then lintian --allow-root --fail-on error "$package"; fi
  dpkg-deb -x "$package" "$dir/unpacked"
done
"$checks/first_session.sh" >"$dir/first.lua"

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
cp "$program" "$dir/first.lua" "$root/tmp/"
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

dpkg --root="$root" -i "${packages[@]}" 2>"$dir/log" >&2 || { grep -v 'files list file' "$dir/log" && exit 1; }
try() { env -i PATH=/usr/bin:/bin:/sbin chroot "$root" "$@"; }
try_quietly() { try "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }; }
try_quietly tide /tmp/first.lua
for lua in "${luas[@]}"; do
  try_quietly "$(basename "$lua")" /tmp/first.lua
done
try /tmp/04_tensors
echo "deb: ${#packages[@]} installed, runs in: tide ${luas[*]##*/} 04_tensors"
names=(tide)
[ ${#packages[@]} = 1 ] || names+=(tide-cuda)
dpkg --root="$root" -P "${names[@]}" 2>"$dir/log" >&2 || { grep -v 'files list file' "$dir/log" && exit 1; }
left=$(cd "$root" && find . -path '*tide*' ! -path '*/var/lib/dpkg/*')
[ -z "$left" ] || { echo "deb: removed, but there still are: $left" && exit 1; }
