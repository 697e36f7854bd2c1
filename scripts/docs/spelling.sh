#!/usr/bin/env bash
# Looks for misspelt words in what people read: the README, the manual, and the pages beside the code. Where codespell is
# missing the check is skipped (77).
set -eu
cd "$(dirname "$(realpath "$0")")/../.."
if ! command -v codespell >/dev/null 2>&1; then
  echo "spelling: skipped, codespell is not installed"
  exit 77
fi
# Words of code that are no misspellings: the name of a function, and short names of variables.
find . -name '*.md' -not -path './build/*' -not -path './.git/*' -print0 |
  xargs -0 codespell --ignore-words-list=isin,nd,fo,ro,te,numer,ot,widht scripts/docs/*.lua
