#!/usr/bin/env bash
# Runs the example for LÖVE without a window, from its folder and from a .love archive, where no file has the kernel's text.
# Ends with 77 where there is no LÖVE 11, no zip by Python, or no module for LuaJIT. usage: love.sh FOLDER_OF_LUAJITS_MODULE
set -eu
for command in love python3; do
  command -v $command >/dev/null || { echo "love: skipped, there is no $command here" && exit 77; }
done
[ -e "$1/tide.so" ] || { echo "love: skipped, there is no module for LuaJIT" && exit 77; }
example=$(realpath "$(dirname "$0")/../examples/love")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$example" && python3 -m zipfile -c "$dir/game.love" ./*.lua)
export LUA_CPATH="$1/?.so;;" FRAMES=60 HOME=$dir XDG_RUNTIME_DIR=$dir
cd "$dir"
for game in "$example" "$dir/game.love"; do
  love "$game" >"$dir/out" 2>&1 || { cat "$dir/out" && exit 1; }
  grep -q '^20000 particles, mean height [2-5][0-9][0-9]$' "$dir/out" || { cat "$dir/out" && exit 1; }
done
