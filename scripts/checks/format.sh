#!/usr/bin/env bash
# Fails when clang-format would change a C or CUDA file. Only version 14 is asked, because versions disagree; where
# there is none the check is skipped (77). With --fix the files are formatted in place.
set -eu
cd "$(dirname "$0")/../.."
tool=
for name in clang-format-14 clang-format; do
  if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then tool=$name && break; fi
done
if [ -z "$tool" ]; then
  echo "format: skipped, clang-format 14 is not installed"
  exit 77
fi
mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
find core kernels lua_bindings spec scripts \( -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -n 16 -P 2 "$tool" --style=file "${mode[@]}"
