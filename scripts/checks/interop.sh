#!/usr/bin/env bash
# Builds scripts/examples/interop against an installed tree, lets each renderer draw its picture with and without a copy
# of the texture, on whatever the machine has, and holds the pictures beside each other. Ends with 77 where it can build
# or run none of them.
# usage: interop.sh PREFIX WORK
set -eu
prefix=$(realpath "$1") work=$2
source=$(realpath "$(dirname "$0")/../examples/interop")
rm -rf "$work"
mkdir -p "$work"
cmake -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$work/log"
grep "not built" "$work/log" || true
cmake --build "$work" >>"$work/log" || { cat "$work/log" && exit 1; }
for name in vulkan opengl; do
  [ -x "$work/$name" ] || continue
  for way in "" copy; do
    status=0
    "$work/$name" "$work/$name$way.png" "$source/scene.lua" $way || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || exit "$status"
  done
done
ls "$work"/*.png >"$work/pictures" 2>/dev/null || exit 77
"$prefix/bin/tide" - "$work/pictures" <<'LUA'
local tide = require "tide"
local first
for path in io.lines(arg[1]) do
  local picture = tide.load_png(path):to "float32"
  first = first or picture
  local apart = (picture - first):abs():mean():item()
  assert(apart < 1, ("%s is %.2f of 255 apart from the first picture"):format(path, apart))
end
LUA
