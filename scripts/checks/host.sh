#!/usr/bin/env bash
# Builds scripts/examples/host against an installed tree, by CMake's package or by pkg-config, and runs it for a second:
# on whatever the machine has, then under ten schedules of a simulated device with the stream sanitizer on.
# usage: host.sh cmake|pkgconfig PREFIX WORK
set -eu
way=$1 prefix=$2 work=$3
source=$(realpath "$(dirname "$0")/../examples/host")
rm -rf "$work"
mkdir -p "$work"
case $way in
cmake)
  cmake -S "$source" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log"
  cmake --build "$work" >>"$work/log"
  ;;
pkgconfig)
  export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
  # shellcheck disable=SC2046
  cc -std=gnu11 -Wall -Wextra -O2 -o "$work/host" "$source"/*.c "-DHOST_LUA_CPATH=\"$(pkg-config --variable=lua_cpath tide)\"" \
    $(pkg-config --cflags --libs tide lua5.4) -lm -rdynamic -Wl,-rpath,"$(pkg-config --variable=libdir tide)"
  ;;
esac
"$work/host" "$source/game.lua" 60
for seed in 0 1 2 3 4 5 6 7 8 9; do
  TIDE_SIM_DEVICES=1 TIDE_SIM_SEED=$seed TIDE_CUDA_SANITIZER=1 "$work/host" "$source/game.lua" 60 >"$work/seed$seed" 2>&1 &
  jobs[seed]=$!
done
for seed in 0 1 2 3 4 5 6 7 8 9; do
  wait "${jobs[seed]}" || { echo "TIDE_SIM_SEED=$seed:" && cat "$work/seed$seed" && failed=1; }
  # One error is the script's own mistake; a race that the sanitizer sees would be an error of every frame.
  if grep -q "race" "$work/seed$seed"; then cat "$work/seed$seed" && failed=1; fi
done
exit "${failed:-0}"
