#!/usr/bin/env bash
# The chunks of lua_bindings use only what they take (lua_bindings/README.md): luacheck finds other globals, names that are
# taken and not used, and names that hide others. Where luacheck is missing the check is skipped (77).
# usage: scripts/checks/luacheck.sh BUILD_FOLDER
set -eu
cd "$(dirname "$(realpath "$0")")/../.."
if ! command -v luacheck >/dev/null 2>&1; then
  echo "luacheck: skipped, it is not installed"
  exit 77
fi
given=$(sed -n '/LTIDE_SCRIPT(/,/);/p' lua_bindings/call/script.c | sed 's/.*LTIDE_SCRIPT(//' | grep -o '[a-z_]*')
check() { luacheck --std none --only 1 211 4 --formatter plain --codes --read-globals $given -- "$@"; }
# shellcheck disable=SC2046
check $(ls lua_bindings/*/*.lua | grep -v /compat/) "$1/script/kernel/texts.lua"
# Those of compat, which LuaJIT or the build's Lua runs.
luacheck --std max --only 1 --formatter plain --codes lua_bindings/compat
# And the check sees a name that was not taken, read or set.
for line in 'return visit(M)' 'function emit() end'; do
  if printf 'local M = ...\n%s\n' "$line" | check - >/dev/null; then
    echo "luacheck: saw nothing wrong in: $line" >&2
    exit 1
  fi
done
echo "luacheck: every chunk takes what it uses"
