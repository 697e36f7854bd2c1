#!/usr/bin/env bash
# Runs the specs that concern simulated devices alone under several schedules of theirs, every third in real time and the
# others in virtual, twice as many at once as there are processors (they wait much), and says which seed failed.
# usage: seeds.sh TIDE FIRST LAST
set -u
tide=$1
# Those specs stop at their first line on the CPU. What is compiled at run time is the same under any schedule.
mapfile -t specs < <(grep -l '^if not D.cuda then return end' spec/*/*_spec.lua | grep -vE '/(jit|kernel|fft)_spec')
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
clock_of() { [ $(($1 % 3)) = 0 ] && echo real || echo virtual; }
run() {
  TIDE_SIM_CLOCK=$(clock_of "$1") TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_SEED=$1 \
    "$tide" scripts/checks/busted.lua "${specs[@]}" >"$logs/$1" 2>&1 && rm "$logs/$1"
}
for ((seed = $2; seed <= $3; seed++)); do
  while [ "$(jobs -rp | wc -l)" -ge $((2 * $(nproc))) ]; do wait -n; done
  run "$seed" &
done
wait
for ((seed = $2; seed <= $3; seed++)); do
  [ -e "$logs/$seed" ] || continue
  echo "seeds: TIDE_SIM_SEED=$seed TIDE_SIM_CLOCK=$(clock_of "$seed") failed:"
  cat "$logs/$seed"
  failed=1
done
exit "${failed:-0}"
