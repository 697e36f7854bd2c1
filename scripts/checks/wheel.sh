#!/usr/bin/env bash
# Has pip install a release's wheels into a virtual environment, without a network, and runs them there: the runner, and
# the modules in lua5.4 and luajit, and heat.py where that Python has lupa and NumPy. pip removes them again.
# usage: wheel.sh RELEASE
set -eu
release=$(realpath "$1") checks=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python=python3
if /usr/bin/python3 -c 'import ensurepip, lupa, numpy' 2>/dev/null; then python=/usr/bin/python3; fi
$python -m venv --system-site-packages "$dir/venv" >"$dir/log" 2>&1 || { echo "wheel: skipped, python3 makes no virtual environment (Debian: python3-venv)" && exit 77; }
quietly() { "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }; }
pip=("$dir/venv/bin/python" -m pip --disable-pip-version-check)
"$checks/first_session.sh" >"$dir/first.lua"
find "$dir/venv" | grep -v __pycache__ | sort >"$dir/before"

quietly "${pip[@]}" install --no-index "$release"/tide*.whl
"${pip[@]}" list --format=freeze | grep -i '^tide'
example=$(realpath scripts/examples/python)
cd /
quietly env -i "$dir/venv/bin/tide" "$dir/first.lua"
env -i "$dir/venv/bin/tide" -h streams | grep -q '^A stream is a queue' || { echo "wheel: no pages of the manual" && exit 1; }
[ -e "$dir/venv/share/tide/notebook/tide_kernel.py" ] || { echo "wheel: no kernel for notebooks" && exit 1; }
for pair in lua5.4:5.4 luajit:5.1; do
  lua=${pair%:*}
  module=$dir/venv/lib/lua/${pair#*:}
  command -v "$lua" >/dev/null && [ -e "$module/tide.so" ] || continue
  quietly env -i LUA_CPATH="$module/?.so" "$(command -v "$lua")" "$dir/first.lua"
  echo "wheel: its module runs in $lua"
done
if "$dir/venv/bin/python" -c 'import lupa, numpy' 2>/dev/null; then
  cp "$example"/heat.* "$dir"
  quietly env -u TIDE_PREFIX "$dir/venv/bin/python" "$dir/heat.py"
  echo "wheel: its module runs in lupa"
fi
if compgen -G "$release/tide_cuda-*.whl" >/dev/null; then [ -e "$dir/venv/lib/libtide_cuda.so" ]; fi

quietly "${pip[@]}" uninstall -y tide tide-cuda
left=$(find "$dir/venv" | grep -v __pycache__ | sort | comm -13 "$dir/before" - | grep tide || true)
[ -z "$left" ] || { echo "wheel: removed, but there still are: $left" && exit 1; }
