#!/usr/bin/env bash
# Runs specs under LuaJIT, but for what spec/luajit.lua says. usage: luajit.sh MODULE_FOLDER RUNNER SPEC...
set -eu
skip() { echo "luajit: skipped, $1" && exit 77; }
command -v luajit >/dev/null || skip "luajit is not installed"
[ -e "$1/tide.so" ] || skip "the module for LuaJIT was not built: LuaJIT's headers (libluajit-5.1-dev) are not installed"
luajit -e 'require "busted"' 2>/dev/null || skip "busted for Lua 5.1 (lua-busted) is not installed"
exec luajit scripts/checks/luajit.lua "$@"
