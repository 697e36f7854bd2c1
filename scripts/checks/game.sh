#!/usr/bin/env bash
# Builds scripts/examples/game against an installed tree and runs it without a window. While it runs, its script changes:
# to one that does not load, then to one with other colours. scripts/checks/game.lua looks at the pictures. Where SDL is,
# it also runs in a window of SDL's dummy driver. usage: game.sh TIDE PREFIX WORK
set -eu
tide=$1 prefix=$2 work=$3
checks=$(realpath "$(dirname "$0")")
source=$(realpath "$checks/../examples/game")
rm -rf "$work"
mkdir -p "$work"
cmake -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS=-Werror >"$work/log"
cmake --build "$work" >>"$work/log" || { cat "$work/log" && exit 1; }

fail() {
  echo "game: $1"
  cat "$work/said"
  exit 1
}

# Waits for a file, or for a text in what the game says.
await() {
  for _ in $(seq 600); do
    if [ $# = 1 ] && [ -s "$1" ]; then return; fi
    if [ $# = 2 ] && grep -q "$2" "$1"; then return; fi
    kill -0 $game 2>/dev/null || break
    sleep 0.1
  done
  fail "waited for $*"
}

headless() { # devices
  local out=$work/pictures$1 script=$work/game$1.lua
  mkdir -p "$out"
  cp "$source/game.lua" "$script"
  # Without simulated devices a real one would be taken.
  [ "$1" != 0 ] || local -x CUDA_VISIBLE_DEVICES=
  TIDE_SIM_DEVICES=$1 "$work/game" "$script" --headless "$out" --frames 5000 >"$work/said" 2>&1 &
  game=$!
  trap 'kill $game 2>/dev/null' EXIT
  await "$out/0030.png"
  echo "this does not load" >"$script"
  await "$work/said" "syntax error"
  sed 's/^local COLOUR = .*/local COLOUR = { 2.2, 0.8, 0.25 }/' "$source/game.lua" >"$script"
  await "$work/said" "loaded .* again"
  local frame
  frame=$(sed -n 's/^frame \([0-9]*\): loaded .* again$/\1/p' "$work/said")
  # The one behind it: that one is whole then.
  await "$(printf '%s/%04d.png' "$out" $(((frame + 11) / 10 * 10)))"
  kill $game
  wait $game || true
  trap - EXIT
  "$tide" "$checks/game.lua" "$out" "$frame" || fail "the pictures with $1 simulated devices"
}
headless 0
headless 1

if pkg-config --exists sdl2; then
  SDL_VIDEODRIVER=dummy "$work/game" "$source/game.lua" --frames 60 >"$work/said" 2>&1 || fail "in a window"
  grep -q "^60 frames in .* particles, 1 loads$" "$work/said" || fail "in a window"
else
  "$work/game" "$source/game.lua" --frames 60 >"$work/said" 2>&1 && fail "there is no window"
  grep -q "libsdl2-dev" "$work/said" || fail "why there is no window"
fi
