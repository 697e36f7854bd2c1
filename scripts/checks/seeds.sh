#!/usr/bin/env bash
# Runs the specs that concern simulated devices alone under several schedules of theirs, and says which seed failed.
# usage: seeds.sh TIDE FIRST LAST
set -u
tide=$1 failed=0
# Those specs stop at their first line on the CPU. What is compiled at run time is the same under any schedule.
mapfile -t specs < <(grep -l '^if not D.cuda then return end' spec/*_spec.lua | grep -vE '/(jit|kernel|fft)_spec')
for ((seed = $2; seed <= $3; seed++)); do
  log=$(TIDE_DEVICE=cuda TIDE_SIM_DEVICES=3 TIDE_SIM_SEED=$seed "$tide" scripts/checks/busted.lua -- "${specs[@]}" 2>&1) && continue
  echo "seeds: TIDE_SIM_SEED=$seed failed:"
  echo "$log"
  failed=1
done
exit $failed
