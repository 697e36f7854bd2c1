#!/usr/bin/env bash
# Keeps the port to Windows true: MinGW compiles all of core but CUDA and the files below, which still speak to POSIX
# themselves; the list may only shrink. What stands on the room for the operating system alone is linked into tests,
# which Wine runs where there is one. What was compiled is kept in WORK and done again where a source has changed.
# usage: windows.sh WORK
set -eu
compiler=x86_64-w64-mingw32-gcc
command -v $compiler >/dev/null || { echo "windows: skipped, $compiler is not installed" && exit 77; }
waiting=(
  backend/cpu/cxx backend/cpu/fiber                 # kernels from text: a compiler is started, stacks are switched
  base/share backend/sim/ipc comm/ipc               # memory that another process opens: a descriptor in /proc
  backend/sim/external comm/external                # another API's memory and semaphores: descriptors
  base/process                                      # programs that are started for a task
  base/file io/mapping jit/cache io/safetensors     # rights, renaming, mapping, folders; a stream in memory
  io/array io/deflate io/npz io/png                 # zlib and libpng, which Debian does not bring for Windows
)
mkdir -p "$1"
work=$(realpath "$1")
cd "$(dirname "$(realpath "$0")")/../.."
flags=(-std=c11 -O1 -D_GNU_SOURCE -D__USE_MINGW_ANSI_STDIO=1 -fno-math-errno -fno-trapping-math -fwrapv -include core/os/windows.h
  -Icore -Icore/include -Wall -Wextra -Wno-unused-parameter -Wno-format -Wno-format-extra-args -Werror)
export compiler work
export flags_text="${flags[*]}"

# Says nothing, or the name of a file that does not compile, whose errors are in its log.
compile() { # core/ROOM/FILE.c
  local name=${1#core/} out
  name=${name%.c} out=$work/${name//\//_}
  [ -e "$out.o" ] && [ -z "$(cat "$out.d" 2>/dev/null | tr -d '\\' | tr ' ' '\n' | grep -E '^(core|spec)/' | xargs -r -I{} find {} -newer "$out.o" 2>&1)" ] && return
  rm -f "$out.o"
  # shellcheck disable=SC2086
  $compiler $flags_text -MD -MF "$out.d" -c "$1" -o "$out.o" 2>"$out.log" || echo "$name"
}
export -f compile
