#!/usr/bin/env bash
# Runs spec/python, the example in scripts/examples/python and the code of the manual's page with each Python that has lupa
# and NumPy, Debian's and the first in PATH, and each Lua of lupa's that tide has a module for. Ends with 77 where there is
# none: scripts/setup --tests installs Debian's.
# usage: python.sh PREFIX      PREFIX: where lib/lua/5.4/tide.so is: a build tree or an installed one
set -eu
prefix=$(realpath "$1")
cd "$(dirname "$(realpath "$0")")/../.."
example=$PWD/scripts/examples/python page=scripts/docs/manual/embed/python.md
export TIDE_PREFIX=$prefix PYTHONDONTWRITEBYTECODE=1 TIDE_SIM_DEVICES=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The page's blocks are one program; its outputs are one text.
awk '/^```/{code = /^```python$/; next} code' $page >"$dir/page.py"
awk '/^```/{shown = /^```text$/; next} shown' $page >"$dir/page.txt"

# luas PYTHON: lines of a name and its version; lupa 1 has one Lua.
luas() {
  "$1" - <<'PYTHON'
import importlib
import lupa
if not hasattr(lupa, "allow_lua_module_loading"):
    print("lua54", lupa.LuaRuntime().eval("_VERSION").split()[1])
else:
    for name, version in (("lua54", "5.4"), ("luajit21", "5.1")):
        try:
            importlib.import_module("lupa." + name)
            print(name, version)
        except ImportError:
            pass
PYTHON
}

ran=0
pythons=(/usr/bin/python3)
first=$(command -v python3 || true)
[ -z "$first" ] || [ "$first" -ef /usr/bin/python3 ] || pythons+=("$first")
for python in "${pythons[@]}"; do
  "$python" -c 'import lupa, numpy' 2>/dev/null || continue
  while read -r lua version; do
    if [ ! -e "$prefix/lib/lua/$version/tide.so" ]; then
      echo "python: no module for Lua $version in $prefix: left out"
      continue
    fi
    "$python" spec/python/tide_numpy_test.py "$prefix" "$lua"
    "$python" "$example/heat.py" "$lua" >"$dir/out"
    grep -q '^mean \([0-9.]*\), NumPy says \1$' "$dir/out" || { echo "python: heat.py prints" && cat "$dir/out" && exit 1; }
    sed "s/Tide()/Tide(lua='$lua')/" "$dir/page.py" | PYTHONPATH=$example "$python" - >"$dir/out"
    diff "$dir/page.txt" "$dir/out" || { echo "python: $page shows what is marked <, and its code prints >" && exit 1; }
    ran=$((ran + 1))
  done < <(luas "$python")
done
[ $ran -gt 0 ] || { echo "python: skipped, no Python has lupa, NumPy and a module of tide; scripts/setup --tests installs Debian's" && exit 77; }
