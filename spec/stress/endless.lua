-- Every function that takes a tensor, with tensors of 2^42 elements in a few bytes of storage: expanded views. Returns
-- a list of calls, each {name, function}, for spec/stress/endless_test.c, which runs each under a limit of time.
local tide = tide

local N = 1 << 42
local left_out = { close = true, keep = true, loader = true, to = true, cuda = true } -- states, threads, devices

local function view(dtype, ...)
  local size = { ... }
  local ones = {}
  for i = 1, #size do ones[i] = 1 end
  return tide.ones(ones, { dtype = dtype }):expand(table.unpack(size))
end

-- Shapes: one line, long and short rows, one result for each of many columns, a batch of matrices.
local function operands(dtype)
  local line, few, many = view(dtype, N), view(dtype, 3, N // 4), view(dtype, N // 4, 3)
  local wide, batch = view(dtype, 100, N // 128), view(dtype, N // 16, 2, 2)
  local high = view(dtype, N // 4096, 2000)
  local small = tide.ones(3, { dtype = dtype })
  return {
    { "line", line }, { "line, 1", line, 1 }, { "line, line", line, line }, { "line, small", line, small },
    { "small, line", small, line }, { "line, line, line", line, line, line }, { "line, 1, line", line, 1, line },
    { "few", few }, { "few, 2", few, 2 }, { "few, few", few, few }, { "few, 2, few", few, 2, few },
    { "many", many }, { "many, 1", many, 1 }, { "few, many", few, many }, { "wide, 2", wide, 2 },
    { "batch", batch }, { "batch, 1", batch, 1 }, { "batch, batch", batch, batch }, { "{line}", { line, line } },
    { "high, 1", high, 1 }, { "line, 3, 1", line, 3, 1 }, { "line, 0.5", line, 0.5 },
  }
end

local calls, seen = {}, {}
local function add(prefix, from)
  local names = {}
  for name, fn in pairs(from) do
    if type(fn) == "function" and type(name) == "string" and not name:find "^_" and not left_out[name] and
        not (prefix == "Tensor." and seen[name]) then
      names[#names + 1], seen[name] = name, true
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do calls[#calls + 1] = { prefix .. name, from[name] } end
end
add("tide.", tide)
add("tide.linalg.", tide.linalg)
add("tide.fft.", tide.fft)
add("tide.special.", tide.special)
add("Tensor.", tide.Tensor)
calls[#calls + 1] = { "einsum i,i", function(x, y) return tide.einsum("i,i->", x, y or x) end }
calls[#calls + 1] = { "einsum i", function(x) return tide.einsum("i->", x) end }

local list = {}
for i, dtype in ipairs { tide.float32, tide.int64, tide.bool, tide.complex64 } do
  local given = operands(dtype)
  for _, c in ipairs(calls) do
    for k, o in ipairs(given) do
      if i > 1 and k % 4 ~= i - 1 then goto continue end -- of the other dtypes some shapes each
      list[#list + 1] = { ("%s(%s) of %s"):format(c[1], o[1], tostring(dtype)),
        function() return c[2](table.unpack(o, 2)) end }
      ::continue::
    end
  end
end
return list
