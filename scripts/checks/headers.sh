#!/usr/bin/env bash
# All public headers in one file, under every standard from C99 and from C++11 on, by each compiler that is here.
# usage: headers.sh INCLUDE LUA_INCLUDE HEADER...      INCLUDE: where tide/ is; a HEADER may lie elsewhere
set -u
include=$1 lua=$2
shift 2
text=$(printf '#include "%s"\n' "$@")
failed=0

# check LANGUAGE STANDARDS COMPILER...: a standard that a compiler does not know yet is not its fault.
check() {
  local language=$1 standards=$2 compiler standard
  shift 2
  for compiler in "$@"; do
    command -v "$compiler" >/dev/null || continue
    for standard in $standards; do
      "$compiler" -x "$language" -std="$standard" -fsyntax-only /dev/null 2>/dev/null || continue
      "$compiler" -x "$language" -std="$standard" -fsyntax-only -Wall -Wextra -Werror -pedantic -Wshadow -Wundef -Wconversion \
        -I"$include" -isystem "$lua" - <<<"$text" || { echo "headers: $compiler -std=$standard" && failed=1; }
    done
  done
}
check c "c99 c11 c17 c2x" gcc clang
check c++ "c++11 c++14 c++17 c++20 c++2b" g++ clang++
exit $failed
