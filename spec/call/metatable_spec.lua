-- Metatables: none of ours is a script's to take, and each of their functions looks at what it is given, also at values
-- that debug.setmetatable has dressed up.
local tide = require "tide"
local D = require "spec.support.device"

local has_gpu = tide.cuda.is_available()

-- One object of each class, made anew at each call.
local function objects()
  local x = tide.arange(6, { dtype = tide.float32 }):reshape(2, 3)
  local made = {
    Tensor = x, Storage = x:storage(), dtype = tide.float32, device = tide.device "cpu", sizes = x.shape,
    Generator = tide.Generator(), Timer = tide.Timer(), loader = tide.data.loader { x, x },
    iteration = select(4, tide.data.loader({ x, x }):iter()), scope = tide.scope(), cmdline = tide.cmdline "title",
    error = select(2, pcall(tide.zeros, -1)), jit = tide.cuda.jiterator,
    settings = tide.backends.cuda.matmul, generators = tide.cuda.default_generators, nvtx = tide.cuda.nvtx,
    Stream_class = tide.cuda.Stream, Event_class = tide.cuda.Event, Graph_class = tide.cuda.CUDAGraph,
    error_class = tide.cuda.OutOfMemoryError,
  }
  made.scope:close()
  if has_gpu then
    made.Stream, made.Event, made.CUDAGraph = tide.cuda.Stream(), tide.cuda.Event(), tide.cuda.CUDAGraph()
    made.GraphPool, made.MemPool = tide.cuda.graph_pool_handle(), tide.cuda.MemPool()
    made.CudaTimer, made.properties = tide.cuda.Timer(), tide.cuda.get_device_properties()
    made.plan_cache = tide.backends and tide.backends.cuda.cufft_plan_cache
  end
  return made
end

-- Every metatable with a metamethod that the registry holds or an object has, by a name.
local function metatables()
  local found, known = {}, {}
  local function note(name, t)
    if type(t) ~= "table" or known[t] then return end
    for key, f in pairs(t) do
      if type(key) == "string" and key:find "^__" and type(f) == "function" then
        known[t], found[#found + 1] = true, { name = name, meta = t }
        return
      end
    end
  end
  for name, o in pairs(objects()) do note(name, debug.getmetatable(o)) end
  for key, t in pairs(debug.getregistry()) do
    if type(key) ~= "string" or key:find "^tide" then note(tostring(key), t) end
  end
  return found
end

local function is_finaliser(key) return key == "__gc" or key == "__close" end

-- Calls f with the value in every place. What comes of it is an error or a result, no crash.
local function throw_at(f, v, others)
  pcall(f, v)
  for _, w in ipairs(others) do
    pcall(f, v, w)
    pcall(f, w, v)
    pcall(f, v, w, v)
  end
end

local function use(v)
  pcall(function() return v + 1 end)
  pcall(function() return 1 // v end)
  pcall(function() return -v end)
  pcall(function() return ~v end)
  pcall(function() return #v end)
  pcall(function() return v == tide.ones(1) end)
  pcall(function() return tide.ones(1) == v end)
  pcall(function() return v < v end)
  pcall(function() return v .. v end)
  pcall(function() return v(v, 1) end)
  pcall(tostring, v)
  for _, key in ipairs { 1, "shape", "device", "name", "x", v } do
    pcall(function() return v[key] end)
    pcall(function() v[key] = v end)
  end
  pcall(tide.neg, v)
  pcall(tide.zeros, 2, { dtype = v })
  pcall(tide.zeros, 2, { device = v })
  pcall(tide.cat, { v, v })
  pcall(tide.rand, 2, { generator = v })
  pcall(tide.is_storage, v)
  pcall(tide.save, tide.ones(1), v)
  pcall(tide.cuda.current_stream, v)
  pcall(function() local _ <close> = v end)
end

describe("metatables", function()
  it("are closed to scripts", function()
    for name, o in pairs(objects()) do
      if debug.getmetatable(o) then
        assert.is_true(type(getmetatable(o)) == "string", name .. " gives its metatable away")
        assert.is_false(pcall(setmetatable, o, {}), name .. " takes another metatable")
      end
    end
    for _, m in ipairs(metatables()) do assert.are.equal("string", type(m.meta.__metatable), m.name) end
  end)

  it("are no way to call a finaliser with a table", function()
    assert.is_false(pcall(setmetatable, {}, getmetatable(tide.ones(1))))
    local t = debug.setmetatable({}, debug.getmetatable(tide.ones(1)))
    t = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
  end)

  it("hold functions that look at their arguments", function()
    local f = assert(io.tmpfile())
    local foreign = { true, 3, 2 ^ 70, "shape", ("x"):rep(40), {}, { 1, 2, 3 }, type, coroutine.create(type), f }
    local turn = 0
    for _, m in ipairs(metatables()) do
      for key, fn in pairs(m.meta) do
        turn = turn + 1
        if type(fn) == "function" and turn % D.step == 0 then
          for _, v in ipairs(foreign) do throw_at(fn, v, foreign) end
          pcall(fn)
          pcall(fn, nil, nil, nil)
          -- Objects of ours, but another class's. A finaliser may take its own.
          for name, o in pairs(objects()) do
            if debug.getmetatable(o) ~= m.meta or not is_finaliser(key) then throw_at(fn, o, { 1, "shape", o, f }) end
            if name == "Tensor" and m.name ~= "Tensor" and is_finaliser(key) then
              assert.are.equal(15, o:sum():item(), m.name .. key)
            end
          end
        end
      end
    end
    assert.is_true(f:write "still a file" ~= nil)
    f:close()
  end)

  it("may be given to anything by debug.setmetatable", function()
    local file_meta = debug.getmetatable(io.stdout)
    for k, m in ipairs(metatables()) do
      if k % D.step ~= 0 then goto continue end
      use(debug.setmetatable({}, m.meta))
      use(debug.setmetatable({ 1, 2, 3 }, m.meta))
      local f = assert(io.tmpfile())
      use(debug.setmetatable(f, m.meta))
      debug.setmetatable(f, file_meta)
      f:close()
      for _, v in ipairs { false, 1, type, coroutine.create(type) } do
        local own = debug.getmetatable(v)
        debug.setmetatable(v, m.meta)
        use(v)
        debug.setmetatable(v, own)
      end
      for _, o in pairs(objects()) do
        local own = debug.getmetatable(o)
        local before = {}
        if type(o) == "table" then
          for k, v in next, o do before[k] = v end
        end
        debug.setmetatable(o, m.meta)
        use(o)
        if type(o) == "table" then -- others have it too: nothing may stay in it
          for k in next, o do rawset(o, k, before[k]) end
        end
        debug.setmetatable(o, own)
      end
      collectgarbage()
      ::continue::
    end
  end)

  it("leave an object usable whose finaliser was called by hand", function()
    local count = 0
    for name, o in pairs(objects()) do
      local meta = debug.getmetatable(o)
      if meta and meta.__gc then
        count = count + 1
        meta.__gc(o)
        meta.__gc(o)
        use(o)
        local ok, text = pcall(tostring, o)
        assert.is_true(ok and type(text) == "string" or text.kind ~= nil, name)
        local methods = type(meta.__index) == "table" and meta.__index or rawget(tide, name)
        for method, f in pairs(type(methods) == "table" and methods or {}) do
          if type(f) == "function" and method ~= "__call" then pcall(f, o) end
        end
      end
    end
    assert.is_true(count > 3, count)
  end)

  it("of one class do not make a tensor of another object", function()
    local s = tide.ones(4):storage()
    local own = debug.getmetatable(s)
    debug.setmetatable(s, debug.getmetatable(tide.ones(1)))
    assert.is_false(tide.is_tensor(s))
    assert.is_false(pcall(tide.neg, s))
    debug.setmetatable(s, own)
    assert.are.equal(16, s:nbytes())
  end)
end)
