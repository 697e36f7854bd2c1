#!/usr/bin/env bash
# Builds scripts/examples/host against an installed tree, by CMake's package or by pkg-config, and runs it for a second.
# usage: host.sh cmake|pkgconfig PREFIX WORK
set -eu
way=$1 prefix=$2 work=$3
source=$(realpath "$(dirname "$0")/../examples/host")
rm -rf "$work"
mkdir -p "$work"
case $way in
cmake)
  cmake -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log"
  cmake --build "$work" >>"$work/log"
  ;;
pkgconfig)
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  # shellcheck disable=SC2046
  cc -std=gnu11 -Wall -Wextra -O2 -o "$work/host" "$source"/*.c "-DHOST_LUA_CPATH=\"$(pkg-config --variable=lua_cpath tide)\"" \
    $(pkg-config --cflags --libs tide lua5.4) -rdynamic -Wl,-rpath,"$(pkg-config --variable=libdir tide)"
  ;;
esac
"$work/host" "$source/game.lua" 60
