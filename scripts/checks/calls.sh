#!/usr/bin/env bash
# Random calls of everything public with arguments that nobody would pass on purpose (spec/stress/calls.lua), each seed in a
# process of its own: none may crash, hang, leak or raise what is no error of tide's. Says which seeds failed and how to see
# them again. usage: calls.sh TIDE FIRST LAST [CALLS]
set -u
tide=$(realpath "$1") calls=${4:-500} program=$PWD/spec/stress/calls.lua
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
run() {
  # What a call writes, it writes there.
  mkdir "$logs/in-$1" && cd "$logs/in-$1" || exit
  TMPDIR=$PWD TIDE_SIM_DEVICES=2 TIDE_SIM_SEED=$1 TIDE_KERNEL_CACHE=0 timeout -s KILL 300 \
    "$tide" "$program" --calls "$calls" "$1" >"$logs/$1" 2>&1 && rm "$logs/$1"
}
for ((seed = $2; seed <= $3; seed++)); do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
  run "$seed" &
done
wait
for ((seed = $2; seed <= $3; seed++)); do
  [ -e "$logs/$seed" ] || continue
  failed=$((${failed:-0} + 1))
  [ "$failed" -le 5 ] || continue
  echo "calls: seed $seed failed; once more, with every call: TIDE_SIM_DEVICES=2 TIDE_SIM_SEED=$seed $tide $program" \
    "--calls $calls --trace $seed"
  tail -n 60 "$logs/$seed"
done
if [ -n "${failed:-}" ]; then
  echo "calls: $failed seeds of $(($3 - $2 + 1)) failed"
  exit 1
fi
echo "calls: $(($3 - $2 + 1)) seeds of $calls calls each: none failed"
