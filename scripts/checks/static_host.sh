#!/usr/bin/env bash
# Builds spec/package/static_host.c, in C and in C++, with tide's archives out of an installed tree, by CMake's package,
# and by pkg-config, into a program with a shared C library and into one that needs no shared library at all; each runs
# where no file of tide's is.
# usage: static_host.sh PREFIX WORK
set -eu
prefix=$(realpath "$1") work=$2
source=$(realpath "$(dirname "$0")/../../spec/package")
rm -rf "$work"
mkdir -p "$work/run"
cmake -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log"
cmake --build "$work" >>"$work/log" || { cat "$work/log" && exit 1; }
# Where Lua is not found CMake and the header say what to look for.
mkdir -p "$work/without"
cat >"$work/without/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(without C)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
find_package(tide REQUIRED)
END
cmake -S "$work/without" -B "$work/without/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
grep -q "needs the headers of Lua 5.4" "$work/log" || { cat "$work/log" && exit 1; }
if cc -fsyntax-only "-I$prefix/include" "$source/headers.c" 2>"$work/log"; then
  echo "static_host: the compiler finds lua.h by itself, so that what the header says otherwise was not seen"
else
  grep -q "needs the headers of Lua 5.4" "$work/log" || { cat "$work/log" && exit 1; }
fi
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# shellcheck disable=SC2046
cc -O2 -o "$work/static_host_beside" "$source/static_host.c" $(pkg-config --static --cflags --libs tide-lua lua5.4)
# Without --static the library is the shared one, and what the module's archive needs is there, too.
# shellcheck disable=SC2046
cc -O2 -o "$work/shared_host" "$source/static_host.c" $(pkg-config --cflags --libs tide-lua lua5.4) "-Wl,-rpath,$prefix/lib"
(cd "$work/run" && ../shared_host picture.png && rm picture.png)
# The linker says of each dlopen that a static program needs the C library's files at run time: not an error.
# shellcheck disable=SC2046
cc -static -O2 -o "$work/static_host_alone" "$source/static_host.c" $(pkg-config --static --cflags --libs tide-lua lua5.4) \
  >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }

cd "$work/run"
for host in c cc beside alone; do
  if readelf -d "../static_host_$host" | grep -E 'NEEDED.*(tide|png|libz)'; then
    echo "static_host: static_host_$host needs the libraries above" && exit 1
  fi
  env -i "../static_host_$host" picture.png
  [ -s picture.png ] && rm picture.png
done
