#!/usr/bin/env bash
# abi.lua beside records of other times: what breaks programs is named, additions and new names of parameters pass.
# usage: abi_breaks.sh TIDE BUILD LUA_INCLUDE
set -eu
checks=$(dirname "$0") tide=$1 build=$2 lua_include=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
abi() { "$tide" "$checks/abi.lua" "$build" "$lua_include" "$@"; }

# The record of this tree, whatever abi.txt is of.
abi --print >"$dir/now"

# change SED: the record as it would be if this tree had had that.
change() {
  sed -E "$1" "$dir/now" >"$dir/record"
  if cmp -s "$dir/now" "$dir/record"; then echo "abi_breaks: '$1' changes nothing" && exit 1; fi
}
passes() {
  change "$1"
  abi --against "$dir/record" >"$dir/log" || { echo "abi_breaks: '$1' should pass:" && cat "$dir/log" && exit 1; }
}
breaks() {
  change "$1"
  if abi --against "$dir/record" >"$dir/log"; then echo "abi_breaks: '$1' should fail" && exit 1; fi
  grep -qF -- "$2" "$dir/log" || { echo "abi_breaks: '$1' should say '$2':" && cat "$dir/log" && exit 1; }
}

breaks 's/^(function tide_init) (.*)/\1 \2\nfunction tide_gone void tide_gone(void)/' 'function tide_gone is gone'
breaks 's/^(function tide_init .*\().*\)$/\1int config)/' 'tide_init has another type'
breaks 's/^(function tide_init .*\().*\)$/\1const tide_gone *config)/' 'tide_init has another type'
breaks 's/^(type tide_task_fn .*)void \*arg/\1int arg/' 'tide_task_fn has another type'
breaks 's/^(struct tide_stat) .*/\1 8/' 'struct tide_stat has'
breaks 's/^(field tide_error.device) .*/\1 4 4/' 'field tide_error.device is at offset'
breaks 's/^(field tide_error.device .*)/\1\nfield tide_error.gone 4 4/' 'field tide_error.gone is gone'
breaks 's/^(constant TIDE_MAX_DIMS) .*/\1 8/' 'constant TIDE_MAX_DIMS is 12, and was 8'
breaks 's/^(constant TIDE_MAX_DIMS .*)/\1\nconstant TIDE_GONE 1/' 'constant TIDE_GONE is gone'

passes 's/^(function tide_init .*)config\)/\1settings)/'
passes '/^function tide_init /d'
passes '/^constant TIDE_MAX_DIMS /d'
passes 's/^(struct tide_config) .*/\1 16/; /^field tide_config.cuda_path /d'
passes 's/^soname .*/soname libtide.so.99 1/; /^struct tide_stat /s/ [0-9]+$/ 1/'
echo "abi_breaks: all seen"
