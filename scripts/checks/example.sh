#!/usr/bin/env bash
# Runs one example from the source tree's root, as its `-- ci: arguments` line says (none: without arguments).
# usage: example.sh TIDE FILE
set -eu
tide=$1 file=$2
args=$(head -n 5 "$file" | sed -n 's/^-- ci: *//p')
# The words of the line are the arguments.
# shellcheck disable=SC2086
exec "$tide" "$file" $args
