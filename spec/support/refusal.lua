-- Rows of calls that are refused. A row is a call and, behind the last " -- ", its error without places and devices, or
-- "= " and the number that it gives.

local tide = require "tide"
local D = require "spec.support.device"

local M = {}

-- Fresh operands for each row: x [2, 3], v [3], s without dims, e without elements, c complex, b bool; m and M are the ends
-- of the integers.
local function operands()
  local env = setmetatable({ t = tide, L = tide.linalg, F = tide.fft, m = math.mininteger, M = math.maxinteger }, { __index = _G })
  function env.ones(...) return tide.ones({ ... }, { device = D.dev }) end
  function env.of(data, dtype) return D.tensor(data, dtype or "float32") end
  function env.ix(data) return D.tensor(data, "int64") end
  env.x, env.v, env.s, env.e = env.ones(2, 3), env.ones(3), env.of(5), env.ones(0, 3)
  env.c, env.b = tide.complex(env.ones(2), env.ones(2)), env.of({ true, false }, "bool")
  return env
end

-- The rows that give something else, with what they give.
function M.wrong(rows)
  local wrong = {}
  for row in rows:gmatch "[^\n]+" do
    local call, expected = row:match "^(.*) %-%- (.*)$"
    local ok, e = pcall(function()
      local result = load("return " .. call, "=row", "t", operands())()
      if D.cuda then tide.cuda.synchronize() end
      return result
    end)
    local number = ok and e ~= nil and tonumber(e) and ("= %g"):format(tonumber(e))
    local got = number or ok and "no error" or type(e) == "table" and e.kind .. ": " .. e.message or tostring(e)
    got = got:gsub(" made at %S+:%d+", ""):gsub(" used at %S+:%d+", ""):gsub(" on cuda:0", ""):gsub("(%d)LL%f[%A]", "%1") -- LuaJIT's
    got = got:gsub("synchronize: ", expected:match "^%w+: ([%w_]+: )" or "") -- a device's errors come late
    if got ~= expected then wrong[#wrong + 1] = call .. " -- " .. got end
  end
  return table.concat(wrong, "\n")
end

return M
