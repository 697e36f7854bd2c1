-- tide.progress: a loop that shows how far it is.
local tide = require "tide"
local D = require "spec.support.device"
local T = require "spec.support.terminal"

-- Its stderr is a file.
local function log_of(code, env)
  local out, err, status = D.run({ "-e", code }, { env = env })
  assert.are.equal(0, status, err)
  return err, out
end

local function steps(...)
  local out = {}
  for i, v in tide.progress(...) do out[#out + 1] = { i, tide.is_tensor(v) and v:item() or v } end
  return out
end

describe("progress", function()
  it("iterates over numbers, lists, tensors, loaders and iterators", function()
    assert.are.same({ { 1 }, { 2 }, { 3 } }, steps(3))
    assert.are.same({}, steps(0))
    assert.are.same({ { 1 }, { 2 } }, steps(2.0, "label", { show = false }))
    assert.are.same({ { 1, "a" }, { 2, "b" } }, steps { "a", "b" })
    assert.are.same({ { 1, 5 }, { 2, 7 } }, steps(tide.tensor { 5, 7 }))
    assert.are.same({ { "a", nil }, { "b", nil } }, steps(("a b"):gmatch "%a", "words", { total = 2 }))
    local sum = 0
    for batch in tide.progress(tide.data.loader({ x = tide.arange(10) }, { size = 10, batch_size = 4 })) do sum = sum + batch.x:sum():item() end
    assert.are.equal(45, sum)
    local done = coroutine.wrap(function()
      for i in tide.progress(function(_, last) return coroutine.yield(last) end) do if i == 2 then return "stopped" end end
    end)
    done()
    done(1)
    assert.are.equal("stopped", done(2))
  end)

  it("writes lines to a log, and the last one", function()
    local err = log_of "for i in tide.progress(400, 'train', { every = 0.05 }) do if i % 40 == 0 then os.execute 'sleep 0.03' end end"
    local lines = {}
    for line in err:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.is_true(#lines >= 3 and #lines <= 11, err)
    assert.matches("^%[%d%d:%d%d:%d%d%.%d%d%d cpu%] train +%d+%% +%d+/400 [%d.]+/s %d+ s left$", lines[1])
    assert.matches("%] train 400 in [%d.]+ m?s, [%d.]+/s$", lines[#lines])
    assert.matches("%] train 3 of 9 in ", (log_of "for i in tide.progress(9, 'train') do if i == 3 then break end end"))
    assert.matches("%] 0 in ", (log_of "for i in tide.progress(0) do end"))
    local long = log_of "for i in tide.progress(500000, 'x', { every = 0.01 }) do os.execute 'sleep 0.02' if i == 2 then break end end"
    local hours, minutes, seconds = long:match " (%d+):(%d%d):(%d%d) left"
    local rate = tonumber(long:match "([%d.]+)/s")
    assert.is_true(minutes and tonumber(minutes) < 60 and tonumber(seconds) < 60, long)
    assert.is_true(math.abs((hours * 3600 + minutes * 60 + seconds) * rate / 500000 - 1) < 0.05, long)
    long = log_of "for i in tide.progress(20000, 'x', { every = 0.01 }) do os.execute 'sleep 0.02' if i == 2 then break end end"
    assert.matches(" %d+:%d%d left", long)
    assert.matches("%] 2 in [%d.]+ ms, ", (log_of "for i in tide.progress(('a b'):gmatch '%a') do end"))
    assert.are.equal("", (log_of "for i in tide.progress(3, 'x', { show = false }) do end"))
    local nested = log_of "for i in tide.progress(2, 'outer') do for j in tide.progress(2, 'inner') do end end"
    assert.matches("^[^\n]*outer 2 in[^\n]*\n$", nested)
  end)

  it("ends its line where an error leaves the loop", function()
    local err = log_of [[pcall(function() for i in tide.progress(9, 'a') do if i == 2 then error 'x' end end end)
      for i in tide.progress(1, 'b') do end]]
    assert.matches("a 2 of 9 in.*\n.*b 1 in", err)
  end)

  it("writes nothing to a pipe, unless asked", function()
    local function piped(code)
      local pipe = io.popen(D.quote(D.runner) .. " -e " .. D.quote(code) .. " 2>&1")
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    assert.are.equal("", piped "for i in tide.progress(3) do end")
    assert.matches("3 in", piped "for i in tide.progress(3, 'x', { show = true }) do end")
  end)

  it("draws a bar on a terminal", function()
    local text = T.session { "for i in tide.progress(30, 'work') do os.execute 'sleep 0.02' end\r", { expect = "work 30 in" }, T.settle, "\4" }
    assert.matches("work +%d+%% ▕█.*▏ %d+/30 [%d.]+/s", text)
    assert.matches("\r\27%[Kwork 30 in [%d.]+ m?s, [%d.]+/s", text)
  end)

  it("refuses what cannot be iterated", function()
    D.raises("ArgumentError", tide.progress, "x")
    D.raises("ArgumentError", tide.progress)
    for _, n in ipairs { -1, 1.5, 0 / 0, 2 ^ 53, math.huge } do D.raises("ArgumentError", tide.progress, n) end
    D.raises("ArgumentError", tide.progress, io.stderr)
    D.raises("ArgumentError", tide.progress, 3, "x", { every = -1 })
    D.raises("ArgumentError", tide.progress, 3, "x", { evry = 1 })
  end)
end)
