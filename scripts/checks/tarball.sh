#!/usr/bin/env bash
# Packs the tarball, unpacks it in a strange place and runs it there with an empty environment.
# usage: tarball.sh BUILD
set -eu
build=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$build" && cpack -G TGZ -B "$dir/packed" >"$dir/log" 2>&1) || { cat "$dir/log" && exit 1; }
mkdir "$dir/a place"
tar -xzf "$dir"/packed/*.tar.gz -C "$dir/a place" --strip-components=1
cd /
env -i "$dir/a place/bin/tide" -e 'print(tide.ones(2))'

size=$(stat -Lc %s "$dir/a place/lib/libtide.so")
echo "libtide.so: $size bytes stripped"
[ "$size" -le $((4 * 1024 * 1024)) ] || { echo "tarball: libtide.so is over 4 MiB" && exit 1; }
if grep -rlF "$build" "$dir/a place"; then
  echo "tarball: the files above name the build folder"
  exit 1
fi
