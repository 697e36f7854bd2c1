#!/usr/bin/env bash
# Builds tide with a Lua that checks how its API is used (stack room, indexes, threads) and itself, in build/luacheck, and
# runs what follows there; without arguments the tests of blocks and states, then all specs on simulated devices.
# usage: scripts/checks/lua_checks.sh [command...]     in the source tree; 77: the source of Lua cannot be had
#
# The source is that of the Debian package whose headers the build uses. apt keeps its lists in the tree, so nothing of
# the system is changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
tree=$PWD/build/luacheck
lua=$tree/lua
mkdir -p "$lua"/{parts,lists/partial,cache/archives/partial}

if [ ! -e "$lua/liblua5.4.a" ]; then
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  printf 'Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$suite" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$lua/parts/source.sources"
  apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$lua/parts" -o Dir::State::lists="$lua/lists"
    -o Dir::Cache="$lua/cache")
  (cd "$lua" && "${apt[@]}" update && "${apt[@]}" source --download-only lua5.4 && tar xzf lua5.4_*.orig.tar.gz) || exit 77
  for file in "$lua"/lua-5.4*/src/l*.c; do
    name=$(basename "$file" .c)
    case $name in lua | luac) continue ;; esac
    cc -O2 -g -fPIC -DLUA_USE_LINUX -DLUA_COMPAT_5_3 -DLUA_USE_APICHECK -DLUAI_ASSERT -c "$file" -o "$lua/$name.o"
  done
  ar rcs "$lua/liblua5.4.a" "$lua"/*.o
fi

cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDE_CUDA=OFF -DTIDE_LUA_ARCHIVE="$lua/liblua5.4.a" >/dev/null
cmake --build "$tree" --target tide_runner --target ramp_test --target host_test >"$tree/build.log"
# Lua itself looks in /usr/local; the modules of the specs are where Debian puts them.
export LUA_PATH='/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;./?.lua;;'
export LUA_CPATH="/usr/lib/$(uname -m)-linux-gnu/lua/5.4/?.so;;"
if [ $# -gt 0 ]; then exec "$@"; fi
"$tree/spec/ramp_test"
"$tree/spec/host_test" "$tree/lib/lua/5.4/tide.so"
TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 "$tree/bin/tide" scripts/checks/busted.lua spec
