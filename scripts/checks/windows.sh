#!/usr/bin/env bash
# Keeps the port to Windows true: MinGW compiles all of core but CUDA and the files below, which still speak to POSIX
# themselves; that list may only shrink. Wine, where there is one, runs the test of core/os.
# usage: windows.sh WORK
set -eu
compiler=x86_64-w64-mingw32-gcc
command -v $compiler >/dev/null || { echo "windows: skipped, $compiler is not installed" && exit 77; }
waiting=(
  base/share.c {backend/sim,comm}/ipc.c      # memory that another process opens: a descriptor in /proc
  {backend/sim,comm}/external.c              # another API's memory and semaphores: descriptors
)
without=(io/{array,deflate,npz,png}.c) # zlib and libpng are not looked for
cd "$(dirname "$(realpath "$0")")/../.."
mkdir -p "$1"
list=$(IFS=';' && echo "${waiting[*]};${without[*]}")
cmake -G "Unix Makefiles" -S scripts/cmake/windows -B "$1" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$compiler \
  -DCMAKE_BUILD_TYPE=Release ${2:+-DCMAKE_C_COMPILER_LAUNCHER=$2} "-DTIDE_WAITING=$list" >"$1/log" 2>&1 || { cat "$1/log" && exit 1; }
cmake --build "$1" --parallel 2 -- -k >"$1/log" 2>&1 || { grep -E 'error|warning|undefined' "$1/log" && exit 1; }
for file in "${waiting[@]}"; do
  [ -e "core/$file" ] || { echo "windows: core/$file is listed, but there is none" && exit 1; }
  if $compiler -std=c11 -D_GNU_SOURCE -include core/os/windows.h -Icore -Icore/include -fsyntax-only \
    -Werror=implicit-function-declaration "core/$file" 2>/dev/null; then
    echo "windows: core/$file compiles: take it off the list of what waits" && exit 1
  fi
done
echo "windows: ${#waiting[@]} files of core wait to be ported"

wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null) || { echo "windows: no Wine here to run os_test" && exit 0; }
export WINEPREFIX WINEDEBUG=-all
WINEPREFIX=$(realpath "$1")/wine
timeout 300 "$wine" "$1/os_test.exe"
