#!/usr/bin/env bash
# Loads the installed Lua module into an ordinary lua5.4, which knows nothing of tide, starts the installed runner from
# there, and reads a page of the manual by it.
# usage: module.sh PREFIX
set -eu
command -v lua5.4 >/dev/null || { echo "module: skipped, lua5.4 is not installed" && exit 77; }
LUA_CPATH="$1/lib/lua/5.4/?.so" lua5.4 -e 'local tide = require "tide"; print(tide.ones(2) + 1)'
LUA_CPATH="$1/lib/lua/5.4/?.so" lua5.4 -e 'local tide = require "tide"
  tide.multiprocessing.spawn(function(rank, x) assert(x:sum():item() == 2 and tide) end, {nprocs = 2, args = {tide.ones(2)}})'
"$1/bin/tide" -h streams | grep -qx "Streams and events"
