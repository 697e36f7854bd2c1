-- The largest sizes in every function that takes one: an error or an empty result, and never a product that wraps. Under
-- UndefinedBehaviorSanitizer a signed overflow anywhere below ends the run.

local tide = require "tide"
local D = require "spec.support.device"

-- What changes the process, runs code, reads memory and files or draws; and what would rightly take for ever.
local apart = {}
for name in ([[from_ptr scope keep help warn cmdline Timer Generator load load_png save save_png serialize deserialize
  seed initial_seed manual_seed get_rng_state set_rng_state set_num_threads set_default_device set_default_dtype
  set_printoptions set_float32_matmul_precision device device_scope free set_ apply_ map_ share_memory_ pin_memory ipc_handle
  record_stream fft cuda plot]]):gmatch "%S+" do
  apart[name] = true
end

local function functions()
  local list, known = {}, {} -- most methods are functions of tide, too
  local function add(prefix, space, is_method)
    for name, fn in pairs(space) do
      if type(fn) == "function" and not (apart[name] or known[fn]) then
        list[#list + 1], known[fn] = { prefix .. name, fn, is_method }, true
      end
    end
  end
  add("tide.", tide, false)
  add("tide.fft.", tide.fft, false)
  local _, methods = debug.getupvalue(debug.getmetatable(tide.ones(1)).__index, 1)
  add("x:", methods, true)
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local edge = { 1, 2, 0, -1, 3, (1 << 53), (1 << 60), (1 << 60) + 1, (1 << 62), (1 << 62) + 1, math.maxinteger, math.mininteger }
local few = { 1, 1 << 62, math.maxinteger }
-- Sizes are checked before a device is asked, by the same code for all: the CPU's run under UndefinedBehaviorSanitizer takes
-- every number, the others some.
local some = D.cuda or not os.getenv "UBSAN_OPTIONS"
if some then edge, few = { 0, -1, 1 << 60, 1 << 62, math.maxinteger }, { 1 << 62 } end

describe("the largest sizes", function()
  D.watch(before_each, after_each)

  local function operands()
    local on = { device = D.dev }
    return {
      function() return tide.ones(2, 3, on) end,
      function() return tide.tensor({ true, false }, on) end,
      function() return tide.tensor(5, on) end,
      function() return tide.range(4, { dtype = "int64", device = D.dev }) end,
      function() return tide.empty(0, 1 << 60, { dtype = "uint8", device = D.dev }) end,
      function() return tide.empty(1 << 60, 3, 0, { device = D.dev }) end,
      function() return tide.empty(0, 3, 5, { dtype = "complex64", device = D.dev }) end,
      function() return tide.empty(1 << 62, 1 << 62, 0, { dtype = "uint8", device = D.dev }) end,
    }
  end

  local tries, refused = 0, 0
  local function try(fn, ...)
    local ok, got = pcall(fn, ...)
    tries = tries + 1
    if not ok then
      refused = refused + 1
      assert(#tostring(got) > 10, "an error says nothing")
    end
    if ok and tide.is_tensor(got) and got:numel() == 0 then tostring(got) end
  end

  -- A table of 2^60 rows or parts rightly takes for ever.
  local endless = { ["x:totable"] = true, ["x:tolist"] = true, ["x:unbind"] = true, ["x:split"] = true, ["x:chunk"] = true,
    ["tide.await"] = true, ["tide.unbind"] = true, ["tide.split"] = true, ["tide.chunk"] = true, ["x:rows"] = true, ["x:each"] = true }

  it("alone, in pairs and in tables, after every kind of operand", function()
    for _, f in ipairs(functions()) do
      local name, fn, method = f[1], f[2], f[3]
      for i, new in ipairs(operands()) do
        if (i < 5 or not endless[name]) and (i % 4 == 1 or not some) then
          if not method and i == 1 then
            for _, a in ipairs(edge) do
              try(fn, a)
              try(fn, { a })
              for _, b in ipairs(edge) do
                try(fn, a, b)
                try(fn, { a, b })
                try(fn, a, b, 1 << 62)
                try(fn, a, 1 << 62, b)
              end
            end
          end
          try(fn, new())
          for _, a in ipairs(edge) do
            try(fn, new(), a)
            try(fn, new(), { a })
            try(fn, new(), { a, a })
            for _, b in ipairs(few) do
              try(fn, new(), a, b)
              try(fn, new(), { a, b })
              try(fn, new(), 1, a, b)
              try(fn, new(), { a }, { b })
            end
          end
        end
      end
    end
    assert.is_true(refused > 1000 and refused < tries, refused .. " of " .. tries .. " were refused")
  end)

  it("of empty tensors, in dims beside the one that is indexed or transformed", function()
    local on = { device = D.dev }
    local x = tide.empty(1 << 62, 3, 0, 4, on)
    local I, J = D.tensor { 1, 2 }, D.tensor { 2, 2 }
    assert.are.same({ 1 << 62, 3, 0, 2 }, x[{ {}, {}, {}, I }]:size())
    x[{ {}, {}, {}, I }] = 5
    assert.are.same({ 2, 1 << 60, 0 }, tide.empty(3, 4, 1 << 60, 3, 0, on)[{ I, J, {}, 1 }]:size())
    x:index_put_({ {}, I, {}, J }, 5, { accumulate = true })
    assert.are.same({ 0, 1 << 62, 3, 3 }, tide.fft.rfft(tide.empty(0, 1 << 62, 3, 4, on)):size())
    assert.are.same({ 0, 1 << 62, 3, 4 }, tide.fft.fft(tide.empty(0, 1 << 62, 3, 4, on)):size())
    D.sync()
  end)

  it("of triangles: those that fit in no memory fail at once", function()
    local before = os.clock()
    for _, size in ipairs { { 1, 1 << 60 }, { 1 << 40, 1 << 40 }, { 1 << 53, 1 }, { 1 << 62, 1 << 62 }, { 3, 1 << 62 } } do
      D.raises("OutOfMemoryError", tide.triu_indices, size[1], size[2], -size[1])
      D.raises("OutOfMemoryError", tide.tril_indices, size[1], size[2], size[2])
    end
    for _, k in ipairs { math.mininteger, 1 << 53 } do
      local sign = k < 0 and -1 or 1
      assert.are.same({ 2, 0 }, tide.tril_indices(1 << 53, 0, k):size())
      assert.are.same({ 2, 0 }, tide.triu_indices(0, 1 << 53, k):size())
      assert.are.same({ 2, 0 }, (sign < 0 and tide.tril_indices or tide.triu_indices)(1 << 50, 1 << 50, k):size())
    end
    assert.is_true(os.clock() - before < 20) -- walking one of them takes hours
  end)

  it("of triangles: what is left is what tril and triu keep", function()
    for n = 0, 4 do
      for m = 0, 4 do
        for k = -6, 6 do
          for _, name in ipairs { "tril", "triu" } do
            local kept = tide.ones(n, m)[name](tide.ones(n, m), k):nonzero():t()
            D.eq(kept, tide[name .. "_indices"](n, m, k, { device = D.dev }), 0, name .. n .. "x" .. m .. " " .. k)
          end
        end
      end
    end
  end)

  it("in the printer's options and in windows of windows", function()
    finally(function() tide.set_printoptions { edgeitems = 3, threshold = 1000 } end)
    tide.set_printoptions { edgeitems = 1 << 30, threshold = 1 }
    assert.is_truthy(tostring(tide.ones(2, 3, { device = D.dev })):find("1., 1., 1.", 1, true))
    local x = tide.zeros(1 << 13, { dtype = "uint8", device = D.dev })
    D.raises("OutOfMemoryError", function()
      for d = 1, 6 do x = x:unfold(d, x:size(d) // 2, 1) end
    end)
    assert.is_true(x:numel() > 0)
    D.raises("OutOfMemoryError", function()
      return tide.cat({ tide.empty(0, 1 << 62, { device = D.dev }), tide.empty(0, 1 << 62, { device = D.dev }) }, 2)
    end)
    D.raises("OutOfMemoryError", function() return tide.empty(1 << 62, 8, 0, { device = D.dev }):flatten(1, 2) end)
  end)

  it("in loops over the parts of an empty tensor let hooks run", function()
    finally(function() debug.sethook() end)
    local x, y = tide.empty(1 << 53, 0, { device = D.dev }), tide.empty(1 << 24, 0, { device = D.dev })
    for _, loop in ipairs {
      function() x:totable() end, function() y:unbind() end, function() y:split(1) end, function() y:chunk(1 << 24) end,
    } do
      local calls = 0
      debug.sethook(function()
        calls = calls + 1
        if calls == 100 then error "enough" end
      end, "c")
      local ok, message = pcall(loop)
      debug.sethook()
      assert.is_false(ok)
      assert.is_truthy(tostring(message):find("enough", 1, true))
      collectgarbage()
    end
  end)

  it("makes no more parts than a table can hold", function()
    local x, none = tide.empty((1 << 24) + 1, 0, { device = D.dev }), tide.empty(0, 3, { device = D.dev })
    for _, loop in ipairs {
      function() x:unbind() end, function() x:split(1) end, function() x:chunk(1 << 62) end, function() none:chunk(math.maxinteger) end,
    } do
      assert.is_truthy(D.raises("ValueError", loop).message:find("parts, expected at most 16777216", 1, true))
    end
  end)
end)
