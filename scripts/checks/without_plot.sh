#!/usr/bin/env bash
# The module that was built without lua_bindings/plot does all the rest.
# usage: without_plot.sh FOLDER     where its tide.so lies
set -eu
command -v lua5.4 >/dev/null || { echo "without_plot: skipped, lua5.4 is not installed" && exit 77; }
TIDE_DEVICE=cpu LUA_CPATH="$1/?.so" lua5.4 - <<'LUA'
local tide = require "tide"
local x = tide.arange(6):view(2, 3)
assert(not tide.has "plot" and not tide.has "imshow", "plots are there")
local function must_name(word, fn, ...)
  local ok, message = pcall(fn, ...)
  assert(not ok and tostring(message):find(word, 1, true), tostring(message))
end
must_name("plot", function() return tide.plot(x) end)
must_name("imshow", function() return x:imshow() end)
assert((x + 1):sum():item() == 21 and tostring(x):find "%[3, 4, 5%]" and tide.fuse(function(y) return y * 2 end)(x):max():item() == 10)
local y = tide.ones(6)
tide.kernel "function(i, v) v[i] = v[i] * 2 end"(6, y)
assert(y:sum():item() == 12)
local path = os.tmpname()
tide.save_npy(path, x)
assert(tide.load_npy(path):equal(x))
os.remove(path)
for name, value in pairs(tide) do -- the help of every function
  if type(value) == "function" then tide.help(name) end
end
LUA
