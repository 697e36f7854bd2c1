-- Random functions for tide.fuse (spec/stress/fuse.lua): elementwise chains over tensors of several dtypes, sizes that
-- broadcast and layouts, with casts, reductions, gathers, views, writes in place and what is no part of a kernel in
-- between.
--
-- Of each value the largest absolute value is known, and how far rounding may take it: fused operations keep 16-bit floats
-- in float32, and sum up in another order. What is exact has an error of 0 and has to be equal; what jumps (comparisons,
-- floor, casts to integers) is applied to exact values alone.

local M = {}

local eps = { float64 = 1e-13, float32 = 1e-6, float16 = 2e-3, bfloat16 = 2e-2 }
local inputs = { "float32", "float32", "float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "bool" }

-- Lua's own generator, so that a seed is the same program everywhere.
local function dice(seed)
  local state = (seed * 2654435761 + 97) % 4294967296
  return function(n)
    state = (state * 1664525 + 1013904223) % 4294967296
    return (state >> 8) % n + 1
  end
end

local function count(size, from, to)
  local n = 1
  for d = from or 1, to or #size do n = n * size[d] end
  return n
end

-- ---- sizes ----

-- Two sizes of one pattern: dims of size 1 are in both.
local function draw_sizes(roll)
  local kinds = { { 5 }, { 6, 5 }, { 2, 3, 4 }, { 17 }, { 3, 40 }, { 40, 3 }, { 1, 9 }, { 300, 70 }, { 2, 16390 }, { 16390, 2 }, { 20000 } }
  local first = kinds[roll(roll(3) == 1 and 11 or 7)]
  local second = {}
  for d, n in ipairs(first) do second[d] = n > 1 and n + roll(3) + 1 or 1 end
  return first, second
end

-- A size that broadcasts to it.
local function narrower(roll, first, second)
  local a, b, from = {}, {}, roll(#first + 1)
  if roll(3) > 1 then from = 1 end
  for d = from, #first do
    local one = roll(4) == 1
    a[#a + 1], b[#b + 1] = one and 1 or first[d], one and 1 or second[d]
  end
  return a, b
end

-- ---- the text ----

local Program = {}
Program.__index = Program

function Program:add(v, format, ...)
  v.name = "v" .. #self.values + 1
  v.root = v.root or v.name
  self.values[#self.values + 1] = v
  self.text[#self.text + 1] = ("  local %s = " .. format):format(v.name, ...)
  -- What has grown is brought back, and what jumps is not met by what was rounded.
  if v.bound > 64 and eps[v.dtype] then
    self.text[#self.text + 1] = ("  %s = %s:clamp(-64, 64)"):format(v.name, v.name)
    v.bound, v.root = 64, v.name
  end
  return v
end

function Program:pick(wanted)
  for _ = 1, 12 do
    local v = self.values[self.roll(#self.values)]
    if not wanted or wanted(v) then return v end
  end
end

local function is_float(v) return eps[v.dtype] ~= nil end
local function is_exact(v) return v.err == 0 end
local function number(v) return v.dtype ~= "bool" end

local function like(v, more)
  local w = { dtype = v.dtype, first = v.first, second = v.second, bound = v.bound, err = v.err }
  for k, x in pairs(more) do w[k] = x end
  return w
end

-- Rounding of the result itself; exact values stay so while they are multiples of 1/16 below 2^20.
local function rounded(v, is_exact_op)
  local e = eps[v.dtype] or 0
  if is_exact_op and v.err == 0 and (v.dtype == "float32" or v.dtype == "float64" or e == 0) then return v end
  v.err = v.err + e * math.max(v.bound, 1)
  return v
end

local function broadcast(a, b)
  local size = {}
  for d = 1, math.max(#a, #b) do
    local x, y = a[#a + 1 - d] or 1, b[#b + 1 - d] or 1
    if x ~= y and x ~= 1 and y ~= 1 then return nil end
    table.insert(size, 1, x == 1 and y or x)
  end
  return size
end

local rank = { bool = 0, int8 = 1, int32 = 2, int64 = 3, float16 = 4, bfloat16 = 4, float32 = 5, float64 = 6 }
-- Of tensors with dims; two of different 16-bit floats, and 0-d ones, are left to the others.
local function promoted(a, b)
  if #a.first == 0 ~= (#b.first == 0) and rank[a.dtype] ~= rank[b.dtype] then return nil end
  if a.dtype ~= b.dtype and rank[a.dtype] == 4 and rank[b.dtype] == 4 then return nil end
  return rank[a.dtype] >= rank[b.dtype] and a.dtype or b.dtype
end

local steps = {}

function steps.binary(p)
  local a, b = p:pick(number), p:pick(number)
  if not a or not b then return end
  local first, second, dtype = broadcast(a.first, b.first), broadcast(a.second, b.second), promoted(a, b)
  if not first or not second or not dtype or count(first) > 50000 then return end
  local v = { dtype = dtype, first = first, second = second, err = a.err + b.err, bound = a.bound + b.bound }
  local op = ({ "+", "-", "*", "maximum", "minimum" })[p.roll(5)]
  if op == "*" then v.bound, v.err = a.bound * b.bound, a.bound * b.err + b.bound * a.err + a.err * b.err end
  if v.bound > (dtype == "int8" and 100 or 4096) then return end
  if op == "*" and is_float(v) then -- sixteenths stay sixteenths
    v.err = v.err + (eps[dtype]) * v.bound
  end
  if #op > 1 then
    v.bound = math.max(a.bound, b.bound)
    p:add(rounded(v, true), "%s:%s(%s)", a.name, op, b.name)
  else
    p:add(rounded(v, true), "%s %s %s", a.name, op, b.name)
  end
end

function steps.number(p)
  local a = p:pick(number)
  if not a then return end
  local n, op = ({ 2, 3, 0.5, 1 })[p.roll(4)], ({ "+", "-", "*" })[p.roll(3)]
  if not is_float(a) then n = n // 1 | 0 end
  local v = like(a, { bound = op == "*" and a.bound * n or a.bound + n, err = op == "*" and a.err * n or a.err })
  if v.bound > 100 then return end
  if op == "*" and n == 0.5 then v.err = v.err + eps[v.dtype] * v.bound end
  p.numbers[#p.numbers + 1] = n
  local given = ("n[%d]"):format(#p.numbers)
  if p.roll(8) == 1 then -- the other way where the number is another one
    p:add(rounded(v, true), "(%s > 1 and %s %s %s or -%s)", given, a.name, op, given, a.name)
  else
    p:add(rounded(v, true), "%s %s %s", a.name, op, given)
  end
end

function steps.unary(p)
  local exact = { "neg", "abs", "relu", "sign", "floor", "ceil", "trunc" }
  local smooth = { "tanh", "sigmoid", "sin", "atan" }
  local a = p:pick(number)
  if not a then return end
  local k = p.roll(#exact + #smooth)
  if k <= (is_exact(a) and 7 or 3) then
    local op = exact[k]
    if op == "floor" or op == "ceil" or op == "trunc" then
      if not is_float(a) then return end
    end
    p:add(rounded(like(a, { bound = a.bound + 1 }), true), "%s:%s()", a.name, op)
  elseif is_float(a) then
    p:add(rounded(like(a, { bound = 2 })), "%s:%s()", a.name, smooth[(k - 1) % 4 + 1])
  end
end

function steps.smooth(p)
  local a = p:pick(is_float)
  if not a then return end
  local b = p:pick(function(v) return v.dtype == a.dtype and #v.first == #a.first and table.concat(v.first, ",") == table.concat(a.first, ",") end)
  local kind = p.roll(3)
  if kind == 1 then
    p:add(rounded(like(a, { bound = math.sqrt(a.bound + 1) })), "(%s:abs() + 1):sqrt()", a.name)
  elseif kind == 2 and b then
    p:add(rounded(like(a, { err = a.err + a.bound * b.err, bound = a.bound })), "%s / (%s:abs() + 1)", a.name, b.name)
  else
    p:add(rounded(like(a, { bound = 8, err = 8 * a.err })), "%s:clamp(-8, 2):exp()", a.name)
  end
end

function steps.compare(p)
  local a = p:pick(function(v) return is_exact(v) and number(v) end)
  if not a then return end
  local op = ({ "gt", "le", "eq" })[p.roll(3)]
  local c = p:add(like(a, { dtype = "bool", bound = 1 }), "%s:%s(%d)", a.name, op, p.roll(5) - 3)
  local b = p:pick(function(v) return v.dtype == a.dtype and table.concat(v.first, ",") == table.concat(a.first, ",") end)
  if b then
    p:add(like(a, { bound = math.max(a.bound, b.bound), err = math.max(a.err, b.err) }), "tide.where(%s, %s, %s)", c.name, a.name, b.name)
  end
end

function steps.cast(p)
  local a, dtype = p:pick(), inputs[p.roll(9)]
  if not a or (not eps[dtype] and (not is_exact(a) or a.bound > 100)) then return end
  p:add(rounded(like(a, { dtype = dtype }), true), "%s:to '%s'", a.name, dtype)
end

-- Over the last dims, the first ones, or all.
function steps.reduce(p)
  local a = p:pick(function(v) return #v.first > 0 and count(v.first) > 0 end)
  if not a then return end
  local nd, keep = #a.first, p.roll(2) == 1
  local from, to, text = 1, nd, ""
  local which = p.roll(3)
  if which == 1 then from, text = nd, "-1" elseif which == 2 then to, text = 1, "1" end
  local n = math.max(count(a.first, from, to), count(a.second, from, to))
  local first, second = {}, {}
  for d = 1, nd do
    local is_in = d >= from and d <= to
    if not is_in or (keep and which < 3) then
      first[#first + 1], second[#second + 1] = is_in and 1 or a.first[d], is_in and 1 or a.second[d]
    end
  end
  local v = like(a, { first = first, second = second })
  local options = which < 3 and (", { keepdim = %s }"):format(keep) or ""
  local ops = is_float(a) and { "sum", "mean", "amax", "amin", "var", "std", "norm", "logsumexp" } or { "sum", "amax", "amin", "count_nonzero" }
  if a.dtype == "bool" then ops = { "sum", "any", "all", "count_nonzero" } end
  local op, e = ops[p.roll(#ops)], eps[a.dtype] or 0
  if op == "sum" then
    v.bound, v.err = a.bound * n, a.err * n + e * n * a.bound
    if not is_float(a) then v.dtype = "int64" end
  elseif op == "any" or op == "all" then
    v.bound = 1
    if #options > 0 and not keep then options = "" end
  elseif op == "count_nonzero" then
    if not is_exact(a) then return end
    v.dtype, v.bound, v.err = "int64", n, 0
    if keep then return end
    options = ""
  elseif op == "mean" then
    v.err = a.err + e * a.bound
  elseif op == "var" or op == "std" then
    if n < 4 or math.min(count(a.first, from, to), count(a.second, from, to)) < 3 then return end
    v.bound, v.err = 4 * a.bound ^ 2, 8 * a.bound * a.err + 8 * e * a.bound ^ 2
    if op == "std" then v.bound, v.err = 2 * a.bound, math.sqrt(v.err) end
  elseif op == "norm" then
    v.bound, v.err = a.bound * math.sqrt(n), (a.err + e * a.bound) * math.sqrt(n)
    text = text == "" and "2" or "2, " .. text
  elseif op == "logsumexp" then
    v.bound, v.err = a.bound + math.log(n), a.err + e * (a.bound + 12)
    if text == "" then text = "{ 1" .. (nd > 1 and ", 2" or "") .. (nd > 2 and ", 3" or "") .. " }" end
  end
  if v.bound > 1e9 then return end
  local args = text == "" and "" or text .. options
  p:add(v, "%s:%s(%s)", a.name, op, args)
  if not is_float(v) and v.bound > 100 then -- so that what follows cannot wrap round in another place
    p:add(like(v, { bound = 100 }), "%s:clamp(-100, 100)", v.name)
  end
end

function steps.write(p)
  local a = p:pick(function(v) return is_float(v) and v.owned end)
  local b = p:pick(function(v) return v.dtype == (a and a.dtype) and #v.first <= #a.first end)
  if not a or not b or a.root == b.root then return end
  local same = broadcast(a.first, b.first)
  if not same or table.concat(same, ",") ~= table.concat(a.first, ",") or not broadcast(a.second, b.second) then return end
  local op = ({ "add_", "sub_", "copy_" })[p.roll(3)]
  p.text[#p.text + 1] = ("  %s:%s(%s)"):format(a.name, op, b.name)
  local bound, err = a.bound + b.bound, a.err + b.err + eps[a.dtype] * (a.bound + b.bound)
  if a.err == 0 and b.err == 0 and eps[a.dtype] <= 1e-6 then err = 0 end
  for _, v in ipairs(p.values) do
    if v.root == a.root then v.bound, v.err = math.max(v.bound, bound), math.max(v.err, err) end
  end
end

-- Elements: a row, what a mask chooses, a row as another one.
function steps.assign(p)
  local a = p:pick(function(v) return v.owned and number(v) and #v.first > 0 and count(v.first) > 0 end)
  if not a then return end
  local n, kind = p.roll(5) - 1, p.roll(3)
  if kind == 3 and not is_exact(a) then kind = 1 end
  p.text[#p.text + 1] = ("  " .. ({ "%s[1] = " .. n, "%s[-1] = %s[1]", "%s[%s:gt(2)] = " .. n })[kind]):format(a.name, a.name)
  for _, v in ipairs(p.values) do
    if v.root == a.root then v.bound = math.max(v.bound, n) end
  end
end

function steps.view(p)
  local a = p:pick(function(v) return #v.first == 2 end)
  if not a then return end
  if p.roll(2) == 1 then
    p:add(like(a, { first = { a.first[2], a.first[1] }, second = { a.second[2], a.second[1] }, root = a.root, owned = a.owned }), "%s:t()", a.name)
  else
    p:add(like(a, { first = { a.first[2] }, second = { a.second[2] }, root = a.root, owned = a.owned }), "%s[1]", a.name)
  end
end

-- By an index that is computed, of any size, from either end; it is exact, and within both sizes of the source.
function steps.gather(p)
  local a = p:pick(function(v) return #v.first > 0 end)
  local i = p:pick(function(v) return is_exact(v) and number(v) end)
  if not a or not i then return end
  local dim, from, to = p.roll(#a.first), 1, nil
  local form = ({ "rows", "select", "gather", "take" })[p.roll(4)]
  if form == "rows" then dim = 1 end
  local n = math.min(a.first[dim], a.second[dim])
  if form == "take" then n = math.min(count(a.first), count(a.second)) end
  if form == "select" and #i.first ~= 1 then return end
  local function size_of(x, y)
    local size = { table.unpack(y) }
    if form == "gather" then
      for d = 1, math.max(#x, #y) do
        if d ~= dim and x[d] ~= y[d] then return nil end
      end
      return #x == #y and size or nil
    elseif form == "take" then
      return size
    end
    size = { table.unpack(x, 1, dim - 1) }
    for _, m in ipairs(y) do size[#size + 1] = m end
    for d = dim + 1, #x do size[#size + 1] = x[d] end
    return size
  end
  local first, second = size_of(a.first, i.first), size_of(a.second, i.second)
  if not first or not second or #first > 4 or math.max(count(first), count(second)) > 50000 then return end
  if p.roll(3) == 1 then from, to = -n, -1 else to = n end
  local index = ("%s:to '%s':clamp(%d, %d)"):format(i.name, p.roll(3) == 1 and "int32" or "int64", from, to)
  local v = like(a, { first = first, second = second })
  if form == "rows" then
    p:add(v, "%s[%s]", a.name, index)
  elseif form == "take" then
    p:add(v, "%s:take(%s)", a.name, index)
  else
    p:add(v, "%s:%s(%d, %s)", a.name, form == "select" and "index_select" or form, dim, index)
  end
end

-- What is no part of a kernel.
function steps.between(p)
  local a = p:pick(function(v) return #v.first > 0 and number(v) end)
  if a then p:add(like(a, {}), "%s:flip { 1 }", a.name) end
end

local weights = { "binary", "binary", "binary", "number", "number", "unary", "unary", "smooth", "smooth", "compare", "cast",
  "reduce", "reduce", "write", "view", "between", "gather", "gather", "assign" }
-- Nothing but operations that a function may do with other numbers without doing them one by one.
local plain = { "binary", "binary", "number", "number", "number", "unary", "smooth", "compare", "cast", "reduce", "write" }

-- { fn, text, numbers, inputs = { { dtype, first, second, layout }, ... }, results = { value, ... } }; fn reads the numbers
-- at each call.
function M.program(seed, tide)
  local roll = dice(seed)
  for _ = 1, 5 do roll(2) end
  local p = setmetatable({ roll = roll, values = {}, text = {}, inputs = {}, numbers = {} }, Program)
  local first, second = draw_sizes(roll)
  local names = {}
  for i = 1, 1 + roll(3) do
    local a, b = first, second
    if i > 1 then a, b = narrower(roll, first, second) end
    local v = { name = "x" .. i, dtype = inputs[roll(#inputs)], first = a, second = b, bound = 4, err = 0, root = "x" .. i, owned = true }
    if v.dtype == "bool" then v.bound = 1 end
    p.values[i], p.inputs[i], names[i] = v, { dtype = v.dtype, first = a, second = b, layout = roll(4) }, v.name
  end
  local kinds = roll(2) == 1 and plain or weights
  for _ = 1, 3 + roll(14) do steps[kinds[roll(#kinds)]](p) end
  local results, given = {}, {}
  for i = 1, roll(3) do
    local v = i == 1 and p.values[#p.values] or p.values[roll(#p.values)]
    results[i], given[i] = v, v.name
  end
  table.insert(p.text, 1, ("local n = ...\nreturn function(%s)"):format(table.concat(names, ", ")))
  p.text[#p.text + 1] = "  return " .. table.concat(given, ", ")
  p.text[#p.text + 1] = "end"
  local text = table.concat(p.text, "\n")
  return { seed = seed, text = text, fn = assert(load(text, "=seed " .. seed, "t", { tide = tide }))(p.numbers), inputs = p.inputs,
    numbers = p.numbers, results = results, arguments = { table.unpack(p.values, 1, #p.inputs) } }
end

-- Other numbers for it, of the same kinds and no larger, or those that it had.
function M.change_numbers(program)
  program.given = program.given or { table.unpack(program.numbers) }
  local now, given = program.numbers, program.given
  for i, n in ipairs(given) do
    now[i] = now[i] ~= n and n or math.type(n) == "integer" and n - 1 or n / 2
  end
end

-- Tensors for it: of the first sizes or of the second ones; `shift` makes others of them.
function M.arguments(program, tide, device, which, shift)
  local out = {}
  for i, x in ipairs(program.inputs) do
    local size = x[which]
    local n = count(size)
    local t = ((tide.arange(1, n + 1, { device = device }) * 37 + shift * 11 + i * 5) % 33):to "float32" / 4 - 4
    t = (x.dtype == "bool" and t:gt(0) or x.dtype:match "int" and t:floor():to(x.dtype) or t:to(x.dtype)):view(size)
    if x.layout == 2 and #size == 2 then
      t = t:t():contiguous():t()
    elseif x.layout == 3 and #size > 0 then
      local wide = { table.unpack(size) }
      wide[#wide] = 2 * wide[#wide]
      t = tide.zeros(wide, { dtype = t.dtype, device = device }):slice(#size, 1, -1, 2):copy_(t)
    elseif x.layout == 4 then
      t = tide.zeros(n + 3, { dtype = t.dtype, device = device }):narrow(1, 4, n):view(size):copy_(t)
    end
    out[i] = t
  end
  return out
end

-- How the two lists differ, or nil.
function M.compare(values, expected, got)
  for i, v in ipairs(values) do
    local a, b = expected[i], got[i]
    if a.dtype ~= b.dtype then return ("result %d: dtype: got %s, expected %s"):format(i, b.dtype, a.dtype) end
    local sa, sb = table.concat(a:size(), "x"), table.concat(b:size(), "x")
    if sa ~= sb then return ("result %d: size: got %s, expected %s"):format(i, sb, sa) end
    if a:numel() > 0 then
      local x, y = a:to "float64", b:to "float64"
      local apart = (x - y):abs()
      local far = x:isnan():logical_xor(y:isnan()):logical_or(apart:gt(v.err * 4))
      if far:any():item() then
        return ("result %d (%s, %s): %d of %d differ, most by %g, allowed %g"):format(i, v.name, v.dtype, far:sum():item(), a:numel(), apart:max():item(), v.err * 4)
      end
    end
  end
end

return M
