#!/usr/bin/env bash
# Unpacks a release's tarballs in a strange place and runs them there with an empty environment.
# usage: tarball.sh BUILD RELEASE      RELEASE: the folder that scripts/release has filled from BUILD
set -eu
build=$(realpath "$1") release=$(realpath "$2") checks=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$release" && sha256sum --quiet -c SHA256SUMS)
"$checks/first_session.sh" >"$dir/first.lua"
mkdir "$dir/a place"
for tarball in "$release"/tide-*.tar.gz; do
  tar -xzf "$tarball" -C "$dir/a place" --strip-components=1
  (cd / && env -i "$dir/a place/bin/tide" "$dir/first.lua" >"$dir/log" 2>&1) || { cat "$dir/log" && exit 1; }
done

if grep -q "^TIDE_GLIBC_FLOOR:BOOL=ON" "$build/CMakeCache.txt"; then
  "$checks/glibc.sh" "$dir/a place"
  newest=$("$checks/glibc.sh" "$dir/a place" | tail -n 1)
  if [ "$(printf '%s\n' 2.28 "${newest%% *}" | sort -V | tail -n 1)" != 2.28 ]; then
    echo "tarball: ${newest#* } asks for glibc newer than 2.28; scripts/cmake/glibc says how not to" && exit 1
  fi
fi

size=$(stat -Lc %s "$dir/a place/lib/libtide.so")
echo "libtide.so: $size bytes stripped"
[ "$size" -le $((4 * 1024 * 1024)) ] || { echo "tarball: libtide.so is over 4 MiB" && exit 1; }
if grep -rlF "$build" "$dir/a place"; then
  echo "tarball: the files above name the build folder"
  exit 1
fi
