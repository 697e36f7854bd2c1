#!/usr/bin/env bash
# Builds scripts/examples/embed against an installed tree, by CMake's package or by pkg-config, as C and as C++ without
# exceptions and run-time types, and runs each program on the CPU and on two simulated devices. By pkg-config it also
# compiles the C of the manual's pages, each block as the body of a function of a host that has all of tide's headers.
# usage: embed.sh cmake|pkgconfig PREFIX WORK
set -eu
way=$1 prefix=$2 work=$3
source=$(realpath "$(dirname "$0")/../examples/embed")
rm -rf "$work"
mkdir -p "$work"

build() { # language
  local out=$work/$1
  mkdir -p "$out"
  if [ "$way" = cmake ]; then
    cmake -S "$source" -B "$out" -DCMAKE_PREFIX_PATH="$prefix" -DEMBED_LANGUAGE="$1" \
      -DCMAKE_C_FLAGS=-Werror -DCMAKE_CXX_FLAGS=-Werror >"$out/log"
    cmake --build "$out" >>"$out/log" || { cat "$out/log" && exit 1; }
    return
  fi
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  local compiler=(cc -std=gnu11) file
  [ "$1" = CXX ] && compiler=(c++ -std=gnu++11 -fno-exceptions -fno-rtti -x c++)
  for file in "$source"/*.c; do
    # shellcheck disable=SC2046
    "${compiler[@]}" -Wall -Wextra -Werror -O1 -o "$out/$(basename "$file" .c)" "$file" -x none \
      "-DTIDE_MODULE=\"$(pkg-config --variable=lua_module tide)\"" $(pkg-config --cflags --libs tide lua5.4) \
      -lm -ldl -pthread -rdynamic -Wl,-rpath,"$(pkg-config --variable=libdir tide)"
  done
}

run() { # language devices program arguments
  local out=$work/$1.$2.$3.txt
  # Without simulated devices a real one would be taken.
  [ "$2" != 0 ] || local -x CUDA_VISIBLE_DEVICES=
  TIDE_SIM_DEVICES=$2 "$work/$1/$3" "${@:4}" >"$out" 2>&1 && return
  echo "embed: $3 as $1 with $2 simulated devices:"
  cat "$out"
  return 1
}

# Waits until the game has said so, or has ended.
said() { # text file
  until grep -q "$1" "$2" 2>/dev/null || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
}

# The script changes while the game runs: to one that does not load, then to one that does, which the game may see when
# half of it is written and load once more.
reload() { # language devices
  local script=$work/$1.$2.lua out=$work/$1.$2.game.txt
  cp "$source/game.lua" "$script"
  : >"$out"
  run "$1" "$2" game "$script" 250 &
  said '^20\s' "$out"
  echo "this does not load" >"$script"
  said "syntax error" "$out"
  cp "$source/game.lua" "$script"
  wait $! || return
  grep -q "syntax error" "$out" && grep -q '^2[024]0\s' "$out" && grep -q "250 frames, [2-9] loads" "$out" && return
  echo "embed: game.c has not loaded the changed script as $1 with $2 simulated devices:"
  cat "$out"
  return 1
}

pages() {
  local page file=$work/page.c
  for page in "$source"/../../docs/manual/*/*.md; do
    grep -q '^```c$' "$page" || continue
    {
      printf '#include <%s>\n' lua.h lauxlib.h tide/tide.h tide/tide_lua.h
      echo 'int page(lua_State *L) {'
      awk '/^```/{code = /^```c$/; next} code' "$page"
      echo 'return 0; }'
    } >"$file"
    # shellcheck disable=SC2046
    cc -std=c11 -fsyntax-only -Wall -Werror -Wno-unused $(pkg-config --cflags tide lua5.4) "$file" || { echo "embed: the C of $page does not compile" && return 1; }
  done
}

failed=0
[ "$way" = cmake ] || PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pages || failed=1
for language in C CXX; do
  build $language
  for devices in 0 2; do
    for file in "$source"/[01]*.c; do run $language $devices "$(basename "$file" .c)" || failed=1; done
    reload $language $devices || failed=1
  done
done
exit $failed
