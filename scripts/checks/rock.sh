#!/usr/bin/env bash
# Has luarocks install a release's rock into a tree of its own and runs it there: an ordinary lua5.4 requires it and starts
# processes, and luarocks removes it again. No compiler is called.
# usage: rock.sh RELEASE
set -eu
luarocks=$(command -v luarocks-5.4 || command -v luarocks) || { echo "rock: skipped, luarocks is not installed" && exit 77; }
for command in lua5.4 zip unzip; do
  command -v $command >/dev/null || { echo "rock: skipped, $command is not installed" && exit 77; }
done
release=$(realpath "$1") checks=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rocks() { HOME=$dir "$luarocks" --lua-version 5.4 --tree "$dir/tree" "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }; }
rocks lint tide-scm-1.rockspec
rocks install "$release"/tide-*.rock
"$checks/first_session.sh" >"$dir/first.lua"

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
env -i LUA_CPATH="$dir/tree/lib/lua/5.4/?.so" lua5.4 "$dir/first.lua" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
env -i "$dir/tree/bin/tide" "$dir/first.lua" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
cd - >/dev/null
rocks remove tide
left=$(find "$dir/tree" -type f ! -name manifest)
[ -z "$left" ] || { echo "rock: removed, but there still are: $left" && exit 1; }
