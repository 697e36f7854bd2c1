#!/usr/bin/env bash
# Has luarocks make and install tide-scm-1.rockspec into a tree of its own, from what is built, and runs it there: an
# ordinary lua5.4 requires it and starts processes, and luarocks removes it again.
# usage: rock.sh BUILD
set -eu
luarocks=$(command -v luarocks-5.4 || command -v luarocks) || { echo "rock: skipped, luarocks is not installed" && exit 77; }
command -v lua5.4 >/dev/null || { echo "rock: skipped, lua5.4 is not installed" && exit 77; }
TIDE_ROCK_TREE=$(realpath "$1")
export TIDE_ROCK_TREE
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rocks() { HOME=$dir "$luarocks" --lua-version 5.4 --tree "$dir/tree" "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }; }
rocks lint tide-scm-1.rockspec
rocks make tide-scm-1.rockspec

module=$dir/tree/lib/lua/5.4/tide.so
names=$(nm -D --defined-only "$module" | awk '{ print $NF }')
[ "$names" = luaopen_tide ] || { echo "rock: tide.so exports $names, expected luaopen_tide alone" && exit 1; }
if readelf -d "$module" | grep -E 'NEEDED.*(tide|png|libz)'; then echo "rock: tide.so needs the libraries above" && exit 1; fi
cd /
cat >"$dir/script.lua" <<'LUA'
local tide = require "tide"
assert(tide.ones(2):sum():item() == 2)
assert(tide.cuda.device_count() == 1 and tide.arange(1, 5, { device = "cuda" }):sum():item() == 10)
tide.multiprocessing.spawn(function(rank, x) assert(x:sum():item() == 2 and tide) end, { nprocs = 2, args = { tide.ones(2) } })
tide.save_png(arg[1], tide.zeros(4, 4):byte())
LUA
env -i TIDE_SIM_DEVICES=1 LUA_CPATH="$dir/tree/lib/lua/5.4/?.so" lua5.4 "$dir/script.lua" "$dir/picture.png"
[ -s "$dir/picture.png" ]
env -i "$dir/tree/bin/tide" -e 'assert(tide.ones(2):sum():item() == 2)'
cd - >/dev/null
rocks remove tide
left=$(find "$dir/tree" -type f ! -name manifest)
[ -z "$left" ] || { echo "rock: removed, but there still are: $left" && exit 1; }
