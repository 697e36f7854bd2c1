-- What the specs of tide.fuse share.

local tide = require "tide"
local D = require "spec.support.device"
local assert = require "luassert"

local M = {}

function M.fill(size, dtype, low)
  local n = tide.zeros(size):numel()
  local x = (tide.arange(1, n + 1, { device = D.dev }) * 37 % 23):view(size):to "float32"
  return (x / 4 - (low or 2)):to(dtype or "float32")
end

-- f(...) gives what fn(...) gives, when it is noted, before a kernel is there, and with one.
function M.check(fn, tolerance, ...)
  local f = tide.fuse(fn)
  local expected = table.pack(fn(...))
  for pass = 1, 3 do
    local got = table.pack(f(...))
    assert.are.equal(expected.n, got.n)
    for i = 1, got.n do
      local a, b = expected[i], got[i]
      if tide.is_tensor(a) then
        assert.are.equal(a.dtype, b.dtype)
        assert.are.same(a:size(), b:size())
        for d = 1, a:dim() do -- where one element stands alone, any stride is right
          if a:size(d) > 1 then assert.are.equal(a:stride(d), b:stride(d)) end
        end
        D.eq(a:to "float64", b:to "float64", tolerance, "pass " .. pass .. ", result " .. i)
      else
        assert.are.same(a, b)
      end
    end
    if pass == 2 and D.compiler then f:wait() end
  end
  return f
end

-- Warnings are not shown meanwhile.
function M.quietly(fn)
  warn "@off"
  fn()
  warn "@on"
end

-- The text that f:explain() prints; it gives nothing, so that a prompt shows it once.
function M.explained(f)
  local old, text = _G.print, nil
  rawset(_G, "print", function(...)
    assert.are.equal(1, select("#", ...))
    text = ...
  end)
  local given = select("#", f:explain())
  rawset(_G, "print", old)
  assert.are.equal(0, given)
  return text
end

return M
