#!/usr/bin/env bash
# Keeps the port to Windows true: MinGW compiles all of core but CUDA, and the C tests that need no POSIX themselves; Wine,
# where there is one, runs them.
# usage: windows.sh WORK [LAUNCHER of the compiler]
set -eu
compiler=x86_64-w64-mingw32-gcc
tests=(os process biased fiber source tensor tensor_device graph comm clock order ladder quota dlpack field history idle landing
  loader poison profiler sanitizer scatter sort values)
command -v $compiler >/dev/null || { echo "windows: skipped, $compiler is not installed" && exit 77; }
without=(io/png.c) # Debian has no libpng for MinGW
zlib=z
[ -e /usr/x86_64-w64-mingw32/include/zlib.h ] || { zlib='' && without+=(io/{archive,array,deflate,npz,safetensors}.c); }
echo "windows: compiled without ${without[*]}"
cd "$(dirname "$(realpath "$0")")/../.."
mkdir -p "$1"
list() { local IFS=';' && echo "$*"; }
cmake -G "Unix Makefiles" -S scripts/cmake/windows -B "$1" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$compiler \
  -DCMAKE_C_FLAGS=-O1 ${2:+-DCMAKE_C_COMPILER_LAUNCHER=$2} "-DTIDE_WITHOUT=$(list "${without[@]}")" \
  -DTIDE_ZLIB=$zlib "-DTIDE_TESTS=$(list "${tests[@]}")" >"$1/log" 2>&1 || { cat "$1/log" && exit 1; }
cmake --build "$1" --parallel 2 -- -k >"$1/log" 2>&1 || { grep -E 'error|warning|undefined' "$1/log" && exit 1; }

wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null) || { echo "windows: no Wine here" && exit 0; }
export WINEPREFIX WINEDEBUG=-all
WINEPREFIX=$(realpath "$1")/wine
server=$(ls /usr/lib/wine/wineserver64 2>/dev/null || command -v wineserver) && "$server" -p60 # one for all of them
for test in "${tests[@]}"; do
  timeout 60 "$wine" "$1/${test}_test.exe" </dev/null || { echo "windows: ${test}_test failed or did not end ($?)" && exit 1; }
done
