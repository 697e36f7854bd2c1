#!/usr/bin/env bash
# Prints the newest version of glibc that each program and library below a folder needs, the newest of all last:
# "2.28 lib/libtide.so.0.1.0". usage: glibc.sh FOLDER
set -eu
cd "$1"
find . -type f \( -name '*.so*' -o -path '*/bin/*' \) | while IFS= read -r file; do
  newest=$(objdump -T "$file" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -V | tail -n 1)
  [ -z "$newest" ] || echo "$newest ${file#./}"
done | sort -V
