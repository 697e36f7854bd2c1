-- Errors are objects that say what was wrong, and bad input to every public function gives one: a wrong
-- type, an unknown option, a freed tensor. Nothing crashes, nothing is lost.

local tide = require "tide"
local D = require "spec.support.device"

describe("error objects", function()
  D.watch(before_each, after_each)

  it("have kind, message, traceback and a text", function()
    local ok, e = pcall(function() return tide.zeros(2):view(3) end)
    assert.is_false(ok)
    assert.are.equal("ShapeError", e.kind)
    assert.is_truthy(e.message:find("view", 1, true))
    assert.is_truthy(tostring(e):find(e.message, 1, true))
    assert.is_truthy(e.traceback:find("error_spec", 1, true))
    assert.is_true(tide.errors.ShapeError.is(e))
    assert.is_false(tide.errors.ValueError.is(e))
    assert.is_false(tide.errors.ShapeError.is "text")
    assert.is_false(tide.errors.ShapeError.is(nil))
    assert.is_false(tide.errors.ShapeError.is { kind = "ShapeError" })
  end)

  it("come from every object's methods and fields, also where there is no object", function()
    local objects = { tide.ones(3), tide.ones(3):storage(), tide.Generator(), tide.Timer(), tide.device(0), tide.float32,
      tide.data.loader { 1, 2 }, tide.cmdline "title" }
    if D.cuda then
      for _, o in ipairs { tide.cuda.Stream(), tide.cuda.Event(), tide.cuda.Timer(), tide.cuda.CUDAGraph(), tide.cuda.MemPool(),
        tide.cuda.get_device_properties(), tide.backends.cuda.cufft_plan_cache[0] } do
        objects[#objects + 1] = o
      end
    end
    local function check(f, ...)
      local ok, e = pcall(f, ...)
      assert.is_true(ok or type(e) == "table" and e.kind ~= nil, tostring(e))
    end
    for _, o in ipairs(objects) do
      local index = debug.getmetatable(o).__index
      if type(index) == "function" then index = select(2, debug.getupvalue(index, 1)) end
      for _, method in pairs(type(index) == "table" and index or {}) do
        check(method)
        check(method, 5)
        check(method, {}, {})
      end
      for _, key in ipairs { {}, true, 1, "no_such_field" } do check(function() return o[key] end) end
    end
    check(tide.warn)
    check(tide.set_num_threads, "many")
    check(tide.cmdline)
    local block = tide.scope()
    check(block.close)
    block:close()
  end)

  it("say what they got, then what they expected", function()
    local x = tide.ones(2, 3)
    for _, case in ipairs {
      { "1 dimensions, expected 2", x.movedim, x, { 1, 2 }, 1 }, { "1 values, expected 3", x.as_strided, x, { 2, 2, 1 }, { 1 } },
      { "1 values, expected 3", tide.empty_strided, { 2, 2, 1 }, { 1 } }, { "3, expected 2", x.roll, x, { 1, 2, 3 }, { 1, 2 } },
      { "1, expected at least 2", x.repeat_tensor, x, 2 }, { "1 values, expected 3", tide.tensor, { { 1, 2, 3 }, { 1 } } },
      { "9 from 2, expected at most 2", x.narrow, x, 2, 2, 9 }, { "5, expected 1 to 3", x.narrow, x, 2, 5, 1 },
      { "5, expected 1 to 2 or -2 to -1", x.sum, x, 5 }, { "9 to 10 of a dimension of 3", x.slice, x, 2, 9, 10 },
      { "1, expected 2", tide.einsum, "ab,c", x }, { "5, expected 3", tide.trapezoid, x, tide.ones(5) },
      { "1, expected 2", x.permute, x, 1 }, { "[2, 3] to [2]", x.expand, x, 2 }, { "[4] for a tensor of 6", x.view, x, 4 },
      { "2 names, expected 3", tide.save_csv, "/dev/null", x, { header = { "a", "b" } } },
      { "5 bytes, expected 4", tide.from_string, "abcde", { dtype = "int32" } } } do
      local ok, e = pcall(table.unpack(case, 2))
      assert.is_true(not ok and e.message:find("got " .. case[1], 1, true) ~= nil, case[1] .. ": " .. tostring(e))
    end
  end)

  it("name every kind", function()
    for _, kind in ipairs { "ArgumentError", "ValueError", "IndexError", "ShapeError", "DtypeError", "DeviceError", "StateError",
      "OutOfMemoryError", "AcceleratorError", "NotSupportedError", "LibraryError", "FileError", "Interrupted" } do
      assert.is_truthy(tide.errors[kind], kind)
    end
    assert.is_truthy(tide.cuda.OutOfMemoryError.is)
    assert.is_truthy(tide.cuda.AcceleratorError.is)
  end)

  local function starts(name, f, ...)
    local ok, e = pcall(f, ...)
    assert.is_true(not ok and e.message:sub(1, #name + 1) == name .. ":", name .. ": " .. tostring(e))
  end

  it("name the function that was called, not one of the core", function()
    starts("ones", tide.ones, -1)
    starts("copy_", function() tide.ones(3):copy_(tide.ones(4)) end)
    starts("create_jit_fn", tide.cuda.jiterator.create_jit_fn, 5)
  end)

  it("name the function that was called, of a device's too", function()
    if not tide.cuda.is_available() then return pending "needs a device" end
    local no_device = tide.cuda.device_count() + 5
    local select_device = tide.cuda.set_device
    starts("device", tide.cuda.device, no_device, print)
    starts("set_device", function() select_device(no_device) end)
    starts("synchronize", function() tide.cuda.synchronize(no_device) end)
    starts("get_device_name", tide.cuda.get_device_name, no_device)
    starts("Stream", function() tide.cuda.Stream(no_device) end)
    starts("replay", function() tide.cuda.CUDAGraph():replay() end)
    starts("elapsed_time", function() tide.cuda.Event():elapsed_time(tide.cuda.Event()) end)
  end)

  it("pass through pcall, error and coroutines unchanged", function()
    local co = coroutine.create(function() tide.zeros(-1) end)
    local ok, e = coroutine.resume(co)
    assert.is_true(not ok and e.kind == "ValueError")
    local _, again = pcall(error, e)
    assert.is_true(rawequal(e, again))
  end)

  it("name the argument and what is accepted", function()
    local e = D.raises("ArgumentError", tide.zeros, 2, { dytpe = "float32" })
    assert.is_truthy(e.message:find("dytpe", 1, true), e.message)
    e = D.raises("ArgumentError", tide.add, tide.zeros(1), "text")
    assert.is_truthy(e.message:find("text", 1, true) or e.message:find("string", 1, true), e.message)
    e = D.raises("ShapeError", function() return tide.zeros(2, 3) + tide.zeros(4) end)
    assert.is_truthy(e.message:find("[2, 3]", 1, true) and e.message:find("[4]", 1, true), e.message)
    e = D.raises("IndexError", function() return tide.zeros(2, 3):sum(0) end)
    assert.is_truthy(e.message:find("1", 1, true), e.message)
    e = D.raises("IndexError", function() return tide.zeros(2, 3):sum(3) end)
    assert.is_truthy(e.message:find("3", 1, true) and e.message:find("2", 1, true), e.message)
  end)

  it("refuse a text that would be cut at a zero", function()
    local path = os.tmpname()
    for _, f in ipairs { tide.load, function(x) tide.save(x, 1) end, tide.load_png, tide.cuda.jiterator.create_jit_fn,
      function(x) tide.cuda.compile_kernel(x, "k") end } do
      assert.matches("zero byte", D.raises("ValueError", f, path .. "\0b").message)
    end
    assert.are.equal("", assert(io.open(path)):read "a")
    os.remove(path)
  end)

  it("refuse a text that would be cut at a zero where a device takes it", function()
    if not D.cuda then return pending "needs a device" end
    for _, f in ipairs { tide.cuda.memory.set_allocator_settings, tide.cuda.memory.scope, tide.cuda.memory.dump_snapshot } do
      D.raises("ValueError", f, "expandable_segments:True\0b")
    end
  end)

  it("name the operation, and the device where there is one", function()
    local function raised(f, ...) return select(2, pcall(f, ...)) end
    assert.are.equal("view", raised(function() return tide.zeros(2):view(3) end).op)
    assert.are.equal("zeros", raised(tide.zeros, "two").op)
    local e = raised(tide.empty, 1 << 50)
    assert.is_true(e.device == tide.device "cpu" and e.requested == 1 << 52)
    e = raised(function() return tide.zeros(2)[3] end)
    assert.is_nil(e.device)
    for _, field in ipairs { "kind", "message", "traceback", "op" } do assert.are.equal("string", type(e[field]), field) end
  end)

  it("name the device that has no memory", function()
    if not D.cuda then return pending "needs a device" end
    local e = select(2, pcall(tide.empty, 1 << 50, { device = D.dev }))
    assert.is_true(tide.cuda.OutOfMemoryError.is(e) and e.device == tide.device "cuda:0")
  end)

  it("hold no tensor", function()
    local _, e = pcall(function() return tide.zeros(2):view(3) end)
    for _, v in pairs(e) do assert.is_false(tide.is_tensor(v)) end
  end)
end)

-- ---- every public function with bad input ----

-- Lua's own errors for a wrong receiver ("attempt to index", "calling 'x' on bad self") are clear too.
local function clear(e)
  if type(e) == "string" then return #e > 0 end
  return type(e.kind) == "string" and type(e.message) == "string" and #e.message > 5
end

local function freed()
  local x = D.tensor { 1., 2. }
  x:free()
  return x
end

local harmless = { collectgarbage = true, set_num_threads = true, set_flush_denormal = true,
  use_deterministic_algorithms = true }
-- What ends, waits, prints or changes the process for good is not walked.
local skip = { ["tide.warn"] = true, ["tide.help"] = true }

local bad = {
  { "nothing" },
  { "nil", n = 1, nil },
  { "a boolean", true },
  { "a number", 1.5 },
  { "0", 0 },
  { "a negative", -7 },
  { "a huge number", math.maxinteger },
  { "NaN", 0 / 0 },
  { "a string", "no such thing" },
  { "an empty table", {} },
  { "a table of strings", { "a", "b" } },
  { "unknown options", { no_such_option = 1 } },
  { "a function", function() end },
  { "a coroutine", coroutine.create(print) },
  { "a file", io.stdout },
  { "three numbers", 1, 2, 3 },
  { "a number and unknown options", 3, { no_such_option = 1 } },
}

local function arguments(case) return table.unpack(case, 2, case.n and case.n + 1 or #case) end

local function walk(name, f, ...)
  if D.tsan then return end -- every error jumps over frames that the sanitizer goes on counting
  local first = table.pack(...)
  for _, case in ipairs(bad) do
    local args = table.pack(table.unpack(first, 1, first.n))
    for _, v in ipairs(table.pack(arguments(case))) do args[#args + 1] = v end
    local ok, e = pcall(f, table.unpack(args))
    local fine, late = pcall(D.sync) -- what a device noted
    assert.is_true(fine or clear(late), name .. " with " .. case[1] .. ": " .. tostring(late))
    assert.is_true(ok or clear(e), name .. " with " .. case[1] .. ": " .. tostring(e))
    if ok and type(e) == "userdata" and pcall(function() return e.close end) and type(e.close) == "function" then e:close() end
  end
end

local function sorted(t)
  local keys = {}
  for k in pairs(t) do if type(k) == "string" then keys[#keys + 1] = k end end
  table.sort(keys)
  return keys
end

describe("bad input", function()
  it("to every function of tide", function()
    for _, name in ipairs(sorted(tide)) do
      local f = tide[name]
      if type(f) == "function" and not skip["tide." .. name] and not harmless[name] and not name:match "seed" then
        walk("tide." .. name, f)
        walk("tide." .. name .. " of a tensor", f, D.tensor { 1., 2. })
        local ok, e = pcall(f, freed())
        assert.is_true(ok or clear(e), name)
      end
    end
    tide.set_printoptions { precision = 4, threshold = 1000, edgeitems = 3, linewidth = 80 }
    tide.set_default_device "cpu"
    tide.set_default_dtype(tide.float32)
  end)

  it("to every function of tide.cuda", function()
    for _, name in ipairs(sorted(tide.cuda)) do
      local f = tide.cuda[name]
      if type(f) == "function" and not name:match "seed" and name ~= "_sleep" and name ~= "device_reset" then
        walk("tide.cuda." .. name, f)
        tide.cuda.set_sync_debug_mode "default"
        local ok, e = pcall(f, freed())
        assert.is_true(ok or clear(e), name)
      end
    end
    if D.cuda then
      tide.cuda.set_device(0)
      tide.cuda.set_stream(tide.cuda.default_stream())
      for d = 0, D.devices - 1 do tide.cuda.set_per_process_memory_fraction(1, d) end
    end
  end)

  it("to every method of a tensor", function()
    local methods = debug.getmetatable(tide.zeros(1)).__index
    local names = {}
    if type(methods) == "table" then names = sorted(methods)
    elseif tide.Tensor then names = sorted(tide.Tensor)
    else
      for _, op in ipairs { "view", "reshape", "sum", "add", "add_", "permute", "expand", "narrow", "select", "index_select", "copy_",
        "to", "cuda", "matmul", "max", "std", "norm", "fill_", "uniform_", "split", "tile", "flip", "roll", "unfold", "as_strided" } do
        names[#names + 1] = op
      end
    end
    for _, name in ipairs(names) do
      local x = D.tensor { { 1., 2. }, { 3., 4. } }
      local f = x[name]
      if type(f) == "function" and name ~= "ipc_handle" then -- which holds the memory for a process that never comes
        walk("x:" .. name, f, x)
        local ok, e = pcall(f, freed())
        assert.is_true(ok or clear(e), name)
        for _, receiver in ipairs { 5, "text", {}, io.stdout, true } do
          ok, e = pcall(f, receiver)
          assert.is_true(ok or clear(e), name)
        end
      end
    end
  end)

  it("to freed tensors is a StateError", function()
    local x = freed()
    for _, f in ipairs {
      function() return x + 1 end, function() return x:sum() end, function() return x[1] end, function() return x.shape end,
      function() return x:view(2) end, function() return x:totable() end, function() x:fill_(1) end, function() return #x end,
      function() return tide.cat { x } end, function() return x:matmul(x) end, function() x[1] = 1 end,
      function() return tide.zeros(2):copy_(x) end, function() return tide.zeros(2):to(x) end,
    } do
      D.raises("StateError", f)
    end
    local y = tide.zeros(2)
    assert.matches("^add: x: got a freed tensor", D.raises("StateError", function() return x + 1 end).message)
    assert.matches("^add: y: got a freed tensor", D.raises("StateError", function() return y + x end).message)
    assert.matches("^add: y: got a freed tensor", D.raises("StateError", function() return { 1, 2 } + x end).message)
    for _, name in ipairs { "clamp", "clamp_min", "clamp_max", "elu", "leaky_relu" } do
      local e = D.raises("StateError", tide[name], { 1, 2 }, x)
      assert.is_nil(e.message:find("null", 1, true), e.message)
    end
  end)

  it("to files", function()
    D.raises("FileError", tide.load_png, "/no/such/file.png")
    D.raises("FileError", tide.save_png, "/no/such/folder/x.png", tide.zeros(2, 2, { dtype = "uint8" }))
    local path = os.tmpname()
    local file = assert(io.open(path, "wb"))
    file:write "\137PNG\r\n\26\n broken"
    file:close()
    D.raises("FileError", tide.load_png, path)
    file = assert(io.open(path, "wb"))
    file:close()
    D.raises("FileError", tide.load_png, path)
    os.remove(path)
    D.raises("FileError", tide.load_png, "/")
    assert.is_truthy(not pcall(tide.save_png, path, tide.zeros(2, 2, 7, { dtype = "uint8" })))
    D.raises("DtypeError", tide.save_png, path, tide.zeros(2, 2))
  end)

  it("to pictures of any content", function()
    local path = os.tmpname()
    for channels = 1, 4 do
      local x = tide.randint(0, 256, { 5, 7, channels }, { dtype = "uint8" })
      if channels == 1 then x = x:squeeze(3) end
      tide.save_png(path, x)
      local y = tide.load_png(path)
      D.eq(x:reshape(5, 7, channels):totable(), y)
    end
    os.remove(path)
  end)

  it("to pictures wherever they lie", function()
    local path = os.tmpname()
    local x = D.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "uint8"):t()
    tide.save_png(path, x)
    D.eq({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, tide.load_png(path):squeeze(3))
    os.remove(path)
  end)

  it("to sizes with too many dims or elements", function()
    D.raises("ValueError", tide.zeros, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 })
    local large = D.raises("OutOfMemoryError", tide.zeros, { 1 << 31, 1 << 31, 4 })
    assert.matches("zeros: too large", large.message, 1, true) -- core's own function behind it is another
    D.raises("ArgumentError", tide.zeros, { 2, "x" })
    D.raises("ArgumentError", tide.zeros, { 2.5 })
    D.raises("ArgumentError", tide.zeros, { 2, n = 1, dtype = "float64" })
    D.raises("ArgumentError", tide.zeros, 2.5)
  end)

  it("to objects of another kind", function()
    for _, f in ipairs { tide.zeros(1).sum, tide.zeros(1).add_, tide.zeros(1).to } do
      assert.is_false(pcall(f))
      assert.is_false(pcall(f, 5))
      assert.is_false(pcall(f, tide.device "cpu"))
      assert.is_false(pcall(f, io.stdout))
    end
    assert.is_false(pcall(debug.getmetatable(tide.zeros(1)).__add, 1, 2))
    assert.is_false(pcall(debug.getmetatable(tide.zeros(1)).__index, 5, 1))
    for name, f in pairs(debug.getmetatable(tide.zeros(1))) do
      if type(f) == "function" and name ~= "__gc" then
        pcall(f)
        pcall(f, 5)
        pcall(f, {}, {})
        pcall(f, io.stdout, 1)
      end
    end
    pcall(debug.getmetatable(tide.zeros(1)).__gc, 5)
    pcall(debug.getmetatable(tide.zeros(1)).__gc, io.stdout)
    D.eq({ 1 }, tide.ones(1))
  end)

  it("in a table whose metamethods fail", function()
    local evil = setmetatable({}, { __index = function() error "index" end, __len = function() error "len" end })
    for _, f in ipairs { tide.tensor, tide.zeros, tide.cat, tide.stack, tide.Generator } do pcall(f, evil) end
    pcall(tide.zeros, 2, evil)
    assert.is_true(true)
  end)
end)
