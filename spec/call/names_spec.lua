-- Names: one that does not exist is an error where it is written, and the message says which was meant.
local tide = require "tide"
local D = require "spec.support.device"

local on = { device = D.dev }
local function says(text, f, ...)
  local e = D.raises("ArgumentError", f, ...)
  if not e.message:find(text, 1, true) then error(("got %q, expected it to say %q"):format(e.message, text), 2) end
  return e
end
local function get(t, key) return t[key] end

describe("an unknown name", function()
  D.watch(before_each, after_each)

  it("of the module raises and names the nearest", function()
    says("tide.zeroes: there is no such name, did you mean zeros?", get, tide, "zeroes")
    says("did you mean int32?", get, tide, "int33")
    local row = D.tensor { 1., 2. }
    says("unknown option 'dmi', expected dim, index, did you mean dim?", row.select, row, { dmi = 1, index = 2 })
    says("did you mean start?", row.flatten, row, { strat = 1 }, nil)
    assert.are.equal(2, row:select({ dim = 1, index = 2 }, nil):item())
    says("did you mean unsqueeze?", get, tide, "unsqeeze")
    says("did you mean Stream?", get, tide.cuda, "Strem")
    says("did you mean max_memory_allocated?", get, tide.cuda, "max_memory_alocated")
    says("did you mean rfft?", get, tide.fft, "rftt")
    says("did you mean range?", get, tide.cuda.nvtx, "rang")
    says("did you mean ValueError?", get, tide.errors, "ValeuError")
    says("tide.qqqqqqqq: there is no such name", get, tide, "qqqqqqqq")
    for _, space in ipairs { tide.cuda.memory, tide.cuda.random, tide.cuda.comm, tide.cuda.jiterator, tide.data, tide.parallel,
      tide.multiprocessing, tide.backends, tide.backends.cuda.matmul, tide.cuda.Stream, tide.Tensor, tide.random } do
      D.raises("ArgumentError", get, space, "no_such_name")
    end
    assert.is_true(pcall(function() for k, v in pairs(tide) do assert(type(k) == "string" and v ~= nil) end end))
    assert.is_nil(tide[1])
    assert.is_nil(tide.__no_such_metamethod)
  end)

  it("of torch or NumPy says what there is instead, or that there is nothing", function()
    local x = tide.ones(2, 3, on)
    says("tide.array: there is no such name; use tide.tensor", get, tide, "array")
    says("x.ravel: a tensor has no such field or method; use x:flatten()", get, x, "ravel")
    for name, instead in pairs { rank = "get_rank", bcast = "broadcast", size = "get_world_size", ReduceOp = "{op = 'sum'}", COMM_WORLD = "tide --ranks 4" } do
      says("tide.distributed." .. name .. ": there is no such name; ", get, tide.distributed, name)
      says(instead, get, tide.distributed, name)
    end
    says("{dtype = tide.float32}", get, tide, "FloatTensor")
    says("tide.data.loader", get, tide.data, "DataLoader")
    says("two results: local v, i = x:max(1)", get, x:max(), "values")
    for _, name in ipairs { "celu", "nanmedian", "nanquantile", "renorm" } do
      assert.is_false(tide.has(name), name)
      says(name .. ": there is no such name; tide does not have torch's", get, tide, name)
      says("tide does not have torch's", get, x, name)
    end
    says("unknown option 'axis', expected dim, keepdim, out, dtype, did you mean dim?", x.sum, x, { axis = 1 })
    assert.is_truthy(D.raises("ValueError", tide.help, "sumn").message:find("did you mean 'sum'?", 1, true))
  end)

  it("of modules have a help that says what they are, and what is in them", function()
    local seen = 0
    for name, module in pairs(tide) do
      local meta = type(module) == "table" and debug.getmetatable(module)
      if type(module) == "table" and not (meta and meta.__call) and module ~= tide.Tensor then
        assert.matches("^tide%." .. name .. " %-> table\n%S", tide.help("tide." .. name))
        seen = seen + 1
      end
    end
    assert.is_true(seen > 9)
    local text = tide.help(tide.linalg)
    assert.matches("\nIt has: cholesky, solve, ", text)
    assert.is_nil(text:find("See: ", 1, true))
  end)

  it("and a wrong argument say what is to be written", function()
    local x = tide.ones(2, 3, on)
    says("exp: x: got number 3, expected a tensor; a method is called with a colon: x:exp(...), of numbers it is math.exp", tide.exp, 3)
    says("log: x: got string 'ready', expected a tensor; tide.note writes a line of a log", tide.log, "ready")
    says("matmul: y: got table, expected a tensor; tide.tensor(t) makes one of a table", tide.matmul, x, { 1, 2 })
    says("matmul: y: got number 2, expected a tensor; tide.tensor(2) is one", tide.matmul, x, 2)
    says("expected a table of tensors; {x, y} is one", tide.cat, x, x)
    says("tensor: data: got 3 numbers, expected them in one table: {1, 2, 3}", tide.tensor, 1, 2, 3)
    local function names(what, kind, f, ...)
      local message = D.raises(kind, f, ...).message
      assert.are.equal(what, message:match "^[^:]*", message)
    end
    names("masked_fill_", "DtypeError", x.masked_fill_, x, x, 0)
    names("randint", "ValueError", tide.randint, 5, 1, { 2 })
    names("random_", "ValueError", x.random_, x, 5, 1)
    names("normal_", "ValueError", x.normal_, x, 0, -1)
    names("bernoulli_", "ValueError", x.bernoulli_, x, 2)
    says("as_tensor: data: got 2 numbers, expected them in one table", tide.as_tensor, 1, 2)
  end)

  it("that stands elsewhere is found there", function()
    says("tide.cuda.synchronize", get, tide, "synchronize")
    says("tide.zeros", get, tide.cuda, "zeros")
    says("x:view()", get, tide, "view")
  end)

  it("of a tensor raises and names the nearest field or method", function()
    local x = tide.ones(2, on)
    says("did you mean x:sum()?", get, x, "summ")
    says("did you mean x.shape?", get, x, "shpe")
    says("did you mean x.dtype?", get, x, "dtyp")
    says("x.qqqqqqqq: a tensor has no such field or method", get, x, "qqqqqqqq")
    assert.is_nil(x.__no_such_metamethod)
  end)

  it("of torch's says what stands for it", function()
    local x = tide.ones(2, on)
    for _, name in ipairs { "detach", "requires_grad", "grad", "backward", "requires_grad_", "is_leaf" } do
      says("tide has no autograd", get, x, name)
    end
    for _, name in ipairs { "no_grad", "autograd", "enable_grad" } do says("tide has no autograd", get, tide, name) end
    says("x:tile(", get, x, "repeat")
    says("x:totable()", get, x, "numpy")
    says("tide.cat", get, tide, "concatenate")
    says("math.pi", get, tide, "pi")
  end)

  it("never hides one that there is, and hints at those alone", function()
    local source = assert(io.open("lua_bindings/call/api/instead.def")):read "a"
    local n = 0
    source = source:gsub(' "\n *"', " ") -- names of two lines
    for names, hint in source:gmatch 'INSTEAD%(%u+, " ([%w_ ]+) ",%s*[%u ]*"?([^"\n]*)"?' do
      for name in names:gmatch "%S+" do
        n = n + 1
        assert.is_false(tide.has("Tensor:" .. name) and tide.has(name), name)
      end
      for path in hint:gmatch "tide%.[%w_.]+" do assert.is_true(tide.has((path:gsub("%.$", ""))), path) end
      for method in hint:gmatch "[xy][:.]([%w_]+)" do assert.is_true(tide.has("Tensor:" .. method) or tide.ones(2, 2)[method] ~= nil, method) end
    end
    assert.is_true(n > 60)
  end)

  it("of another object raises too", function()
    says("did you mean seed?", get, tide.Generator(), "sed")
    says("did you mean itemsize?", get, tide.float32, "itemsiz")
    says("did you mean index?", get, tide.ones(1, on).device, "indx")
    says("did you mean nbytes?", get, tide.ones(1, on):storage(), "nbyte")
    says("Loader: got the key 1, expected a method", get, tide.data.loader { tide.ones(3) }, 1) -- as ipairs does
    says("cmdline.prase: there is no such name, did you mean parse?", get, tide.cmdline "x", "prase")
  end)

  it("of a device's object raises too", function()
    if not D.cuda then return pending "needs a device" end
    says("did you mean query?", get, tide.cuda.Stream(), "qury")
    says("did you mean record?", get, tide.cuda.Event(), "recrd")
    says("did you mean replay?", get, tide.cuda.CUDAGraph(), "repaly")
  end)

  it("of an option or a dtype raises and names the nearest", function()
    says("did you mean dtype?", tide.zeros, 2, { dtpye = "int32" })
    says("did you mean keepdim?", function() return tide.ones(2, on):sum { keepdims = true } end)
    says("a dtype such as tide.float32", tide.zeros, 2, { dtype = "flaot32" })
    says("got string 'flaot32'", tide.zeros, 2, { dtype = "flaot32" })
  end)

  it("is asked for with has", function()
    for _, name in ipairs { "zeros", "tide.zeros", "cuda.graph", "tide.cuda.Stream", "fft.fft", "Tensor:sum", "Tensor:add_",
      "cuda.Stream:query", "cuda.Event:record", "Generator:seed", "int32", "has", "backends.cuda.matmul.fp32_precision" } do
      assert.is_true(tide.has(name), name)
    end
    for _, name in ipairs { "", ".", ":", "zeroes", "cuda.no.such.name", "zeros.x", "Tensor:summ", "cuda.Stream:zeros", "no:sum",
      "cuda..graph", "fft:fft" } do
      assert.is_false(tide.has(name), name)
    end
    D.raises("ArgumentError", tide.has)
    D.raises("ArgumentError", tide.has, {})
  end)

  it("can be given by a script", function()
    tide.of_this_spec = 5
    assert.are.equal(5, tide.of_this_spec)
    tide.of_this_spec = nil
    D.raises("ArgumentError", get, tide, "of_this_spec")
    function tide.Tensor:of_this_spec() return self:sum():item() end
    assert.are.equal(2, tide.ones(2, on):of_this_spec())
    tide.Tensor.of_this_spec = nil
    D.raises("ArgumentError", get, tide.ones(2, on), "of_this_spec")
  end)
end)

describe("a call that is written as in another language", function()
  D.watch(before_each, after_each)

  it("hints at the colon of methods", function()
    local x = tide.ones(2, 2, on)
    says("called with a colon: x:sum(", function() return x.sum() end)
    says("called with a colon: x:view(", function() return x.view(4) end)
    says("called with a colon: x:fill_(", function() return x.fill_(3) end)
    says("x:add(y)", function() return x.add(3) end)
  end)

  it("hints at the dot of functions", function()
    for name, f in pairs {
      zeros = function() return tide:zeros(3) end, cat = function() return tide:cat { tide.ones(1) } end,
      tensor = function() return tide:tensor { 1, 2 } end, randn = function() return tide:randn(3, on) end,
      arange = function() return tide:arange(3) end, rfft = function() return tide.fft:rfft(tide.ones(4)) end,
    } do says(name .. " is called with a dot, not with a colon", f) end
  end)

  it("hints at the options for a dtype and a device", function()
    says("a device is an option: {device = 'cuda'}", tide.zeros, { 2, 3 }, "cuda")
    says("a dtype is an option: {dtype = tide.int32}", tide.zeros, 3, tide.int32)
    says("a dtype is an option: {dtype = tide.float64}", tide.zeros, 3, "float64")
    says("a device is an option: {device = 'cpu'}", tide.tensor, { 1, 2 }, tide.device "cpu")
    says("a dtype is an option: {dtype = tide.int8}", tide.full, { 2 }, 1, tide.int8)
    says("a device is an option: {device = 'cpu'}", function() return tide.ones(1, on):new_zeros({ 2 }, "cpu") end)
    local e = says("got string 'cuda'", function() return tide.ones(2, on):sum "cuda" end)
    assert.is_nil(e.message:find("option", 1, true)) -- it has none of that name
  end)

  it("hints at eq where == has given a boolean", function()
    local x = tide.ones(2, on)
    says("x:eq(y) compares their elements", tide.where, x == 1, x, 0)
    says("x:eq(y) compares their elements", function() return x[x == 1] end)
    says("x:eq(y) compares their elements", function() x[x == 1] = 0 end)
    says("x:eq(y) compares their elements", tide.sum, x == 1)
    local _, err, code = D.run { "-e", [[
      local x = tide.ones(2)
      print((x:eq(1) * true):all():item()) -- booleans beside booleans
      print(x * (x == 1), (x == 1) - x, x:add_(true))]] } -- as PyTorch has them
    assert.are.equal(0, code)
    assert.are.equal(1, select(2, err:gsub("Lua warning: [^\n]*x:eq%(y%) compares their elements\n", "")), err)
  end)

  it("hints at the call of a method, at item and at the arguments there are", function()
    local x = tide.ones(2, on)
    says("item is a method, it is to be called: x:item()", function() return x + x.item end)
    says("item is a method, it is to be called: x:item()", tide.tensor, { 1, x.item })
    says("x:item()", function() return "v: " .. x:sum() end)
    says("x:item()", function() return x .. "" end)
    says("x:sum([dim] [, {keepdim=false", function() return x:sum(1, true) end)
    says("tide.zeros(sizes...", tide.zeros)
    local e = says("got nothing", function() return x + nil end)
    assert.is_nil(e.message:find("tide.add(", 1, true)) -- an operator is not called
  end)
end)
