-- tide --init: the files that a project begins with.

local M = ...
local json_string = use("runner/runner_setup.c", "json_string")
local main = [[
-- Heat spreads over a plate.
-- usage: tide main.lua [--size N] [--steps N] [--picture heat.gif]
local tide = require "tide"

local M = {}

-- The plate of n by n, cold but for a hot square in the middle.
function M.plate(n)
  local u = tide.zeros(n, n)
  local a, b = n // 2 - n // 8, n // 2 + n // 8
  u[{ {a, b}, {a, b} }] = 1
  return u
end

-- One step: each point inside moves towards the mean of its neighbors. The border stays cold.
M.step = tide.kernel(function(i, j, u)
  if i == 1 or j == 1 or i == #u or j == #u then return u[i][j] end
  return u[i][j] + 0.2 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - 4 * u[i][j])
end)

function M.run(n, steps, every)
  local u, frames = M.plate(n), {}
  for k = 1, steps do
    if every and k % every == 1 then frames[#frames + 1] = u end
    u = M.step({ n, n }, u)
  end
  return u, frames
end

local function main()
  local options = tide.cmdline "Heat spreads over a plate."
    :option("size", 64, "points on a side")
    :option("steps", 200, "steps to compute")
    :option("picture", "", "a GIF to write")
    :parse(arg)
  local u, frames = M.run(options.size, options.steps, options.picture ~= "" and 5 or nil)
  print(("after %d steps: mean %.6f, hottest %.4f"):format(options.steps, u:mean():item(), u:max():item()))
  if #frames > 0 then tide.save_gif(options.picture, frames, { scale = 4, cmap = "inferno", vmin = 0, vmax = 1 }) end
end

if arg and arg[0] and arg[0]:find "main%.lua$" then main() end
return M
]]

local spec = [[
-- usage: tide spec/main_spec.lua     (busted, too, where LUA_CPATH leads to tide)
local tide = require "tide"
local heat = require "main"

local describe = rawget(_G, "describe") or function(name, body) print(name) body() end
local it = rawget(_G, "it") or function(name, body) body() print("  ok: " .. name) end

describe("heat on a plate", function()
  it("begins hot in the middle", function()
    local u = heat.plate(16)
    assert(u[8][8]:item() == 1)
    assert(u[1][1]:item() == 0)
  end)

  it("loses nothing before it reaches the border", function()
    local before = heat.plate(32):sum():item()
    local after = heat.run(32, 5):sum():item()
    assert(math.abs(after - before) < 1e-3, after)
  end)

  it("has no negative temperature", function()
    assert(heat.run(32, 50):min():item() >= 0)
  end)
end)
]]

-- M.files(stubs): a list of {path, text}; stubs: the folder of the stubs, or nil.
function M.files(stubs)
  local library = stubs and ',\n  "workspace.library": [' .. json_string(stubs) .. "]" or ""
  local settings = '{\n  "runtime.version": "Lua 5.4",\n  "diagnostics.globals": ["tide", "describe", "it"],\n'
    .. '  "workspace.checkThirdParty": false' .. library .. "\n}\n"
  return { { ".luarc.json", settings }, { "main.lua", main }, { "spec/main_spec.lua", spec } }
end
