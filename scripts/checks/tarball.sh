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

# The newest symbols of glibc that the binaries ask for.
if grep -q "^TIDE_GLIBC_FLOOR:BOOL=ON" "$build/CMakeCache.txt"; then
  while IFS= read -r file; do
    for version in $(objdump -T "$file" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sort -uV); do
      [ "$(printf '%s\n' GLIBC_2.28 "$version" | sort -V | tail -1)" = GLIBC_2.28 ] && newest=$version && continue
      objdump -T "$file" | grep -F "$version"
      echo "tarball: ${file#"$dir/a place/"} asks for glibc newer than 2.28; scripts/cmake/glibc says how not to" && exit 1
    done
    [ -z "${newest:-}" ] || echo "${file#"$dir/a place/"}: $newest"
    newest=
  done < <(find "$dir/a place" -type f \( -name '*.so*' -o -path '*/bin/*' \))
fi

size=$(stat -Lc %s "$dir/a place/lib/libtide.so")
echo "libtide.so: $size bytes stripped"
[ "$size" -le $((4 * 1024 * 1024)) ] || { echo "tarball: libtide.so is over 4 MiB" && exit 1; }
if grep -rlF "$build" "$dir/a place"; then
  echo "tarball: the files above name the build folder"
  exit 1
fi
