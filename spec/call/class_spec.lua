-- Classes of objects: what the one function behind each of their fields, finalisers, texts and comparisons does.
local tide = require "tide"
local D = require "spec.support.device"

-- One object of each class, the fields that it tells, and one that it does not have with what the error names.
local function classes()
  local list = {
    { tide.Generator(), { device = tide.device "cpu" }, "devise", "device" },
    { tide.ones(3):storage(), { device = tide.device "cpu" }, "nbites", "nbytes" },
    { tide.device "cuda:1", { type = "cuda", index = 1 }, "indx", "index" },
    { tide.float16, { name = "float16", itemsize = 2, is_floating_point = true, is_complex = false, is_signed = true },
      "item_size", "itemsize" },
    { tide.Timer(), {}, "tim", "time" },
  }
  if D.cuda then
    local stream, p = tide.cuda.Stream { device = 0, priority = -1 }, tide.cuda.get_device_properties(0)
    list[#list + 1] = { stream, { device = tide.device "cuda:0" }, "prioriti", "priority" }
    list[#list + 1] = { tide.cuda.Event():record(stream), { device = tide.device "cuda:0" }, "recrod", "record" }
    list[#list + 1] = { tide.cuda.MemPool(), {}, "ide", "id" }
    list[#list + 1] = { p, { name = tide.cuda.get_device_name(0), gcnArchName = p.name }, "major_", "major" }
  end
  return list
end

describe("objects", function()
  it("tell their fields, which cannot be set, and name the nearest of one that is not there", function()
    for _, class in ipairs(classes()) do
      local o, fields, wrong, near = table.unpack(class)
      for name, value in pairs(fields) do
        assert.is_true(o[name] == value, tostring(o) .. " " .. name)
        D.raises("ArgumentError", function() o[name] = value end)
      end
      D.raises("ArgumentError", function() o.mine = 1 end)
      local e = D.raises("ArgumentError", function() return o[wrong] end)
      assert.is_truthy(e.message:find("did you mean " .. near .. "?", 1, true), e.message)
      e = D.raises("ArgumentError", function() return o.qqqqqqqq end)
      for name in pairs(fields) do assert.is_truthy(e.message:find(name, 1, true), e.message) end
    end
  end)

  it("are told from foreign ones that have their metatable", function()
    for _, class in ipairs(classes()) do
      local meta, file = debug.getmetatable(class[1]), assert(io.tmpfile())
      local own = debug.getmetatable(file)
      debug.setmetatable(file, meta)
      D.raises("ArgumentError", function() return file.device end)
      if meta.__tostring then D.raises("ArgumentError", tostring, file) end
      if meta.__eq then assert.is_false(meta.__eq(file, class[1]) or meta.__eq(class[1], file)) end
      debug.setmetatable(file, own)
      assert.is_truthy(file:write "still a file")
      file:close()
    end
  end)

  it("are equal where they hold the same", function()
    local x = tide.ones(4)
    assert.is_true(x:storage() == x:view(2, 2):storage())
    assert.is_false(x:storage() == tide.ones(4):storage())
    assert.is_false(tide.Generator() == tide.Generator())
    assert.is_true(tide.device "cuda:2" == tide.device("cuda", 2))
    assert.is_false(tide.device "cuda:2" == tide.device "cuda")
  end)

  it("of a finaliser that was called by hand hold nothing, and say so", function()
    local g, s = tide.Generator(), tide.ones(3):storage()
    for _, o in ipairs { g, s } do
      debug.getmetatable(o).__gc(o)
      D.raises("StateError", function() return o.device end)
      D.raises("StateError", tostring, o)
    end
    D.raises("StateError", g.manual_seed, g, 1)
    D.raises("StateError", s.nbytes, s)
  end)
end)

describe("a class that is called", function()
  it("reads its arguments as a function does", function()
    if not D.cuda then return pending "needs a device" end
    local cuda = tide.cuda
    local first, second = cuda.Event { enable_timing = true }:record(), cuda.record { enable_timing = true }
    second:synchronize()
    assert.is_true(first:elapsed_time(second) >= 0)
    assert.is_true(cuda.Stream(-1).device == tide.device "cuda:0")
    D.raises("ArgumentError", cuda.Stream, 0, { device = 0 })
    D.raises("ArgumentError", cuda.Stream, 0, 1)
    D.raises("ArgumentError", cuda.Stream, { priority = 0.5 })
    D.raises("ArgumentError", cuda.Event, { enable_timing = 1 })
    D.raises("NotSupportedError", cuda.Event, { external = true })
    D.raises("ArgumentError", cuda.Event, 5)
    D.raises("ArgumentError", debug.getmetatable(cuda.Stream).__call, cuda.Stream, {}, {})
    assert.is_truthy(tide.help "cuda.Stream":find "priority=0")
  end)
end)
