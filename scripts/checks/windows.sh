#!/usr/bin/env bash
# Keeps the port to Windows true: MinGW compiles core and the bindings but for CUDA and the files below, and the C tests
# that need no POSIX themselves; Wine, where there is one, runs them.
# usage: windows.sh WORK FOLDER_OF_LUA_H FOLDER_OF_THE_CHUNKS [LAUNCHER of the compiler]
set -eu
compiler=x86_64-w64-mingw32-gcc
tests=(os process biased_mutex fiber source tensor graph comm clock order ladder quota dlpack field history idle staged_copy
  loader poison profiler sanitizer scatter sort values)
command -v $compiler >/dev/null || { echo "windows: skipped, $compiler is not installed" && exit 77; }
without=(
  core/io/png.c                                        # Debian has no libpng for MinGW
  lua_bindings/runner/{repl_{edit,terminal},runner_{interrupt,ranks}}.c # the runner: libedit, poll, SIGINT, launchers of MPI
)
zlib=z
[ -e /usr/x86_64-w64-mingw32/include/zlib.h ] || { zlib='' && without+=(core/io/{archive,array,deflate,npz,safetensors}.c); }
echo "windows: compiled without ${without[*]}"
cd "$(dirname "$(realpath "$0")")/../.."
mkdir -p "$1"
export WINEPREFIX WINEDEBUG=-all
WINEPREFIX=$(realpath "$1")/wine && mkdir -p "$WINEPREFIX"
wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null) || wine=
if [ -n "$wine" ]; then # it is made ready while the compiler works; one server serves all tests
  server=$(ls /usr/lib/wine/wineserver64 2>/dev/null || command -v wineserver) && "$server" -p60
  "$wine" wineboot -i >/dev/null 2>&1 </dev/null &
fi
list() { local IFS=';' && echo "$*"; }
cmake -G "Unix Makefiles" -S scripts/cmake/windows -B "$1" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$compiler \
  -DCMAKE_C_FLAGS=-O1 ${4:+-DCMAKE_C_COMPILER_LAUNCHER=$4} "-DTIDE_LUA=$2" "-DTIDE_SCRIPT=$3" "-DTIDE_WITHOUT=$(list "${without[@]}")" \
  -DTIDE_ZLIB=$zlib "-DTIDE_TESTS=$(list "${tests[@]}")" >"$1/log" 2>&1 || { cat "$1/log" && exit 1; }
cmake --build "$1" --parallel 2 -- -k >"$1/log" 2>&1 || { grep -E 'error|warning|undefined' "$1/log" && exit 1; }
wait
[ -n "$wine" ] || { echo "windows: no Wine here" && exit 0; }
printf '%s\n' "${tests[@]}" | xargs -P 2 -I{} bash -c \
  'timeout 60 "$0" "$1/{}_test.exe" </dev/null || { echo "windows: {}_test failed or did not end ($?)" && exit 1; }' "$wine" "$1"
