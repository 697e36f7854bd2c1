#!/usr/bin/env bash
# Prints the first session of the README, for the tests of what is installed. usage: first_session.sh
cd "$(dirname "$(realpath "$0")")/../.." || exit
awk '/^## /{inside = /^## A first session/} inside && /^```$/{exit} code{print} inside && /^```lua$/{code = 1}' README.md |
  grep . || { echo "first_session: the README has none" >&2 && exit 1; }
