#!/usr/bin/env bash
# Checks what the built files export (what the public headers declare, no more and no
# less), that they need system libraries alone, and that the library stays small.
# usage: symbols.sh BUILD
set -u
build=$1
failed=0

complain() {
  echo "symbols: $*"
  failed=1
}

# check_exports FILE PATTERN: every defined dynamic name fits the pattern.
check_exports() {
  [ -e "$1" ] || return 0
  local wrong
  wrong=$(nm -D --defined-only "$1" | awk '{print $NF}' | sed 's/@.*//' | grep -Evx "$2")
  [ -z "$wrong" ] || complain "$1 exports names other than $2: ${wrong//$'\n'/ }"
}

# check_needs FILE EXTRA: the libraries named in the file are the system's, or match EXTRA.
check_needs() {
  [ -e "$1" ] || return 0
  local wrong
  wrong=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Evx "(libc|libm|libmvec|libpthread|libdl|librt|ld-linux-x86-64|$2)\.so(\.[0-9]+)*")
  [ -z "$wrong" ] || complain "$1 needs: ${wrong//$'\n'/ }"
}

# check_declared LIBRARY: what the public headers declare and what the library exports are the same names.
check_declared() {
  local declared exported
  declared=$(cat "$(dirname "$0")"/../../core/include/tide/*.h | tr '\n' ' ' | grep -oE 'TIDE_API [^;(]*\(' |
    grep -oE 'tide_[a-z0-9_]+\($' | tr -d '(' | sort -u)
  exported=$(nm -D --defined-only "$1" | awk '{print $NF}' | sed 's/@.*//' | sort -u)
  for name in $(comm -23 <(echo "$declared") <(echo "$exported")); do complain "the public headers declare $name, which $1 lacks"; done
  for name in $(comm -13 <(echo "$declared") <(echo "$exported")); do complain "$1 exports $name, which they do not declare"; done
}

# check_size FILE BYTES: what a game ships of it, without symbols.
check_size() {
  local small size
  small=$(mktemp)
  strip -o "$small" "$1"
  size=$(stat -c %s "$small")
  rm "$small"
  [ "$size" -le "$2" ] || complain "$1 has $size bytes when stripped, more than $2"
}

check_exports "$build/lib/libtide.so" 'tide_[a-z0-9][a-z0-9_]*'
check_declared "$build/lib/libtide.so"
check_exports "$build/lib/libtide_cuda.so" 'tide_backend_cuda_open'
check_exports "$build/lib/libtide_distributed.so" 'tide_distributed_open'
check_exports "$build/lib/lua/5.4/tide.so" 'luaopen_tide'
check_needs "$build/lib/libtide.so" none
check_needs "$build/lib/libtide_cuda.so" none
check_needs "$build/lib/libtide_distributed.so" none
check_needs "$build/lib/lua/5.4/tide.so" libtide
check_needs "$build/bin/tide" none
check_size "$build/lib/libtide.so" $((2 << 20))
exit $failed
