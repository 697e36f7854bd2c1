-- Every function that takes `out=`, by the rows: operands in every layout give what contiguous ones do, and a destination
-- that shares memory with an operand, exactly, shifted by an element or seen with another item size, holds the same
-- result, or is refused and nothing has changed. No function is named here but those that draw random numbers.

local tide = require "tide"
local D = require "spec.support.device"
if D.tsan then return pending "values: the other sanitizer looks at them" end

local random = { rand = true, randn = true, rand_like = true, randn_like = true, randint = true, randperm = true, bernoulli = true,
  poisson = true, normal = true, multinomial = true, empty = true, empty_like = true }

-- ---- arguments ----

local worlds = { { 4, 4 }, { 4 }, { 2, 4, 4 } }

local function numbers(size, dtype)
  local n = 1
  for _, s in ipairs(size) do n = n * s end
  local t = {}
  for i = 1, n do t[i] = dtype == "int64" and (i * 7) % 4 + 1 or dtype == "bool" and i % 3 ~= 0 or ((i * 5) % 17 + 1) / 18 end
  return D.tensor(t, dtype):reshape(table.unpack(size))
end

local function dtype_of(p, wanted)
  local n = p.name
  if n:find "^ind" or n == "sorter" then return "int64" end
  if n == "mask" or n == "condition" then return "bool" end
  return wanted
end

-- The required arguments of a row, as tensors are numbers too; nil: it takes what is not known here.
local function arguments(row, size, dtype)
  local list = {}
  for _, p in ipairs(row.params) do
    if not p.optional then
      local v
      if p.type:find "tide.Tensor%[%]" then v = { numbers(size, dtype), numbers(size, dtype) }
      elseif p.type:find "tide.Tensor" then v = numbers(size, dtype_of(p, dtype))
      elseif p.name == "value" or p.name == "min" or p.name == "max" or p.name == "q" then v = 0.5
      elseif p.type == "any" then v = numbers(size, dtype_of(p, dtype))
      elseif p.type:find "integer" then v = 1
      elseif p.name == "reduce" then v = "sum"
      else return nil end
      list[#list + 1] = v
    end
  end
  return list
end

local function is_tensor(v) return tide.is_tensor(v) end

-- Where the row's options go: behind all positional arguments, which may be left out.
local function call(row, list, options)
  local args = table.pack(table.unpack(list))
  if options then args[#list + 1] = options end
  return pcall(tide[row.name], table.unpack(args, 1, #list + (options and 1 or 0)))
end

local function values(x) return tide.is_tensor(x) and x:totable() or x end

-- {row, list, result}: what can be called at all.
local function callable(dtype)
  local found, names = {}, {}
  for _, row in ipairs(tide._rows()) do
    local takes_out = false
    for _, p in ipairs(row.path == "tide" and row.params or {}) do takes_out = takes_out or p.name == "out" end
    for _, size in ipairs(takes_out and not random[row.name] and worlds or {}) do
      local list = arguments(row, size, dtype)
      local ok, result = call(row, list or { {} })
      if ok and list and is_tensor(result) and pcall(result.totable, result) then
        found[#found + 1], names[row.name] = { row = row, list = list, result = result }, true
      end
    end
  end
  local n = 0
  for _ in pairs(names) do n = n + 1 end
  return found, n
end

local function check(want, got, c, what)
  local ok, e = pcall(D.eq, want, got, 1e-5)
  if not ok then error(("%s of %s, %s: %s"):format(c.row.name, D.show(values(c.list[1])), what, tostring(e)), 2) end
end

-- ---- layouts ----

local function layouts(x)
  local out = D.layouts(x)
  if x:dim() > 0 then -- every row the first one: what it should give is asked of a copy
    out[#out + 1] = { "expanded", x:narrow(1, 1, 1):expand(table.unpack(x:size())), function() end, true }
  end
  return out
end

-- ---- destinations ----

-- A destination of the result's size and dtype on memory that x has too, from the same byte or `shift` bytes on. x is
-- moved there and keeps its values.
local function shared(x, result, shift)
  local bytes = tide.zeros({ 4096 }, { dtype = "uint8", device = D.dev })
  local function view(like, from)
    local n = like:numel() * like:element_size()
    return bytes:narrow(1, from + 1, n):view(like.dtype):view(like:size())
  end
  local moved = view(x, 64)
  moved:copy_(x)
  return moved, view(result, 64 + shift), bytes
end

local function shifts_of(x, result)
  local e, r = x:element_size(), result:element_size()
  local list = { 0 }
  for _, s in ipairs { r, -r, 2 * r, -2 * r } do list[#list + 1] = s end
  if e ~= r then list[#list + 1] = e % r == 0 and e or nil end
  return list
end

-- Written where it overlaps, the call gives the result or refuses and leaves its operands alone.
local function overlapping(c, k, shift)
  local x = c.list[k]
  local ok, moved, out = pcall(shared, x, c.result, shift)
  if not ok then return 0 end -- no such view: its address is no multiple of its item size
  local list = { table.unpack(c.list) }
  list[k] = moved
  local went, e = call(c.row, list, { out = out })
  if went then
    check(c.result, out, c, ("argument %d and out %d bytes apart"):format(k, shift))
  else
    assert(type(e) ~= "string" and e.kind, tostring(e))
    check(x, moved, c, ("argument %d, which was refused %d bytes from out"):format(k, shift))
  end
  return went and 1 or 0
end

describe("operands and destinations", function()
  D.watch(before_each, after_each)

  it("that are an empty view of an operand are refused, or get memory of their own", function()
    local refusing = { add = true, sum = true, cumsum = true, index_select = true, mm = true, matmul = true,
      bmm = true, addmm = true, baddbmm = true }
    local refused = {}
    for _, c in ipairs((callable "float32")) do
      for k, x in ipairs(c.list) do
        if is_tensor(x) and x.dtype == c.result.dtype and c.result:numel() > 0 then
          local list = { table.unpack(c.list) }
          list[k] = x:clone()
          local out = list[k]:flatten():narrow(1, 1, 0)
          local went = call(c.row, list, { out = out })
          if went then check(c.result, out, c, "its own memory") else assert(out:numel() == 0, c.row.name) end
          check(x, list[k], c, "beside an empty view")
          refused[c.row.name] = not went
        end
      end
    end
    for name in pairs(refusing) do assert.is_true(refused[name], name) end
  end)

  it("that are a row or a column of what is reduced get the result too", function()
    local dtypes = { all = "bool", any = "bool", argmax = "int64", argmin = "int64", count_nonzero = "int64" }
    local base = (tide.arange(1, 37, { device = D.dev }) * 7 % 11):view { 6, 6 }
    for _, name in ipairs { "sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp", "nansum", "count_nonzero", "argmax", "argmin", "all", "any" } do
      for _, dtype in ipairs(dtypes[name] and { dtypes[name] } or { "float32", "float64" }) do
        for dim = 1, 2 do
          local want = tide[name](base:to(dtype), dim)
          for along = 1, 2 do
            for i = 1, 6 do
              local x = base:to(dtype, { copy = true })
              local out = x:select(along, i)
              tide[name](x, dim, { out = out })
              D.eq(want, out, 1e-6, ("%s of dim %d into number %d of dim %d"):format(name, dim, i, along))
            end
          end
        end
      end
    end
  end)

  for _, dtype in ipairs { "float32", "int64", "bool" } do
    it("in every layout: " .. dtype, function()
      local found, n = callable(dtype)
      assert.is_true(n > (dtype == "float32" and 150 or 60), n)
      for _, c in ipairs(found) do
        for k, x in ipairs(c.list) do
          for _, l in ipairs(is_tensor(x) and layouts(x) or {}) do
            local list, plain = { table.unpack(c.list) }, { table.unpack(c.list) }
            list[k], plain[k] = l[2], l[2]:clone()
            local ok, want = call(c.row, plain)
            local went, got = call(c.row, list)
            assert(ok == went, ("%s: %s"):format(c.row.name, tostring(ok and got or want)))
            if ok then check(want, got, c, l[1]) end
            l[3]()
          end
        end
      end
    end)

    it("written to every layout: " .. dtype, function()
      for _, c in ipairs((callable(dtype))) do
        for _, l in ipairs(D.layouts(c.result)) do
          local filled = l[2]:clone()
          l[2]:zero_()
          local went, e = call(c.row, c.list, { out = l[2] })
          if went then check(filled, l[2], c, "out: " .. l[1]) else assert(type(e) ~= "string", tostring(e)) end
          l[3]()
        end
      end
    end)

    it("that share memory: " .. dtype, function()
      local written = 0
      for _, c in ipairs((callable(dtype))) do
        for k, x in ipairs(c.list) do
          if is_tensor(x) and c.result:numel() > 0 then
            for _, shift in ipairs(shifts_of(x, c.result)) do written = written + overlapping(c, k, shift) end
          end
        end
      end
      assert.is_true(written > 100, written)
    end)
  end
end)

-- Without a collection in between: a tensor that a function makes on its way is not left to the collector, but by those
-- that are composed of other functions.
local composed = { combinations = true, corrcoef = true, cov = true, cumulative_trapezoid = true, float_power = true, isin = true, mode = true,
  quantile = true, nanquantile = true, trapezoid = true, vander = true }

describe("every function", function()
  D.watch(before_each, after_each)

  it("leaves nothing on the device but its results", function()
    if not D.simulated then return pending "a real GPU's libraries keep memory" end
    finally(function() collectgarbage "restart" end)
    local function requested() return tide.cuda.memory_stats()["requested_bytes.all.current"] end
    local function add(bytes, known, v)
      if type(v) == "table" then
        for _, one in ipairs(v) do bytes = add(bytes, known, one) end
      elseif is_tensor(v) and v:storage():nbytes() > 0 and not known[v:storage():data_ptr()] then
        known[v:storage():data_ptr()] = true
        bytes = bytes + v:storage():nbytes()
      end
      return bytes
    end
    local asked = 0
    for _, dtype in ipairs { "float32", "int64" } do
      for _, c in ipairs((callable(dtype))) do
        call(c.row, c.list) -- what is made once
        collectgarbage()
        collectgarbage()
        tide.cuda.synchronize()
        collectgarbage "stop"
        local before, known = requested(), {}
        add(0, known, c.list)
        local results = table.pack(call(c.row, c.list))
        tide.cuda.synchronize()
        local left = requested() - before - add(0, known, { table.unpack(results, 2, results.n) })
        collectgarbage "restart"
        assert(left <= 0 or composed[c.row.name], ("%s leaves %d bytes"):format(c.row.name, left))
        asked = asked + 1
      end
    end
    assert.is_true(asked > 300, asked)
  end)
end)
