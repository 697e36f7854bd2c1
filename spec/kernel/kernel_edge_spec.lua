-- Ranges that the compiler of kernels infers from conditions: where every comparison, in both orders, negated, joined, and
-- in its other branch, leaves a variable just inside of a list or a tensor, the kernel reads it, and one element further on
-- either side it raises, compiled or not, as plain Lua does.

local tide = require "tide"
local D = require "spec.support.device"
if not D.compiler then return pending "kernels are compiled: needs a compiler" end
if D.tsan then return pending "values: the other sanitizer looks at them" end

local most = 9 -- the variable goes from 1 to this
local operators = { ["<"] = ">", ["<="] = ">=", [">"] = "<", [">="] = "<=", ["=="] = "==", ["~="] = "~=" }

-- The places where the condition holds, as plain Lua says: from, to.
local function where(condition)
  local holds = assert(load("local k = ... return " .. condition))
  local from, to
  for k = 1, most do
    if holds(k) then from, to = from or k, k end
  end
  return from, to
end

local function conditions(op)
  local turned, plain = ("5 %s k"):format(operators[op]), ("k %s 4"):format(op)
  return { ("k %s 1"):format(op), ("k %s 5"):format(op), turned, ("not (%s)"):format(turned), ("k < 9 and %s and k > 1"):format(plain),
    plain .. " or k == 6" }
end

-- One branch for each: a condition, and by how much its first and last place miss the list and the tensor.
local function branches(op)
  local list = {}
  for _, condition in ipairs(conditions(op)) do
    for _, as in ipairs { "then", "else" } do
      local from, to = where(as == "then" and condition or ("not (%s)"):format(condition))
      for _, miss in ipairs(from and { 0, -1, 1 } or {}) do
        list[#list + 1] = { condition = condition, as = as, from = from, to = to, miss = miss }
      end
    end
  end
  return list
end

-- A kernel of all branches, which `which` chooses from: t1 to t9 are lists of so many numbers, x is a tensor.
local function text_of(list)
  local lines = { "return function(i, y, x, which)" }
  for n, b in ipairs(list) do
    local at = ("k - %d"):format(b.from - 1 - b.miss)
    local body = ("y[1] = y[1] + t%d[%s]"):format(b.to - b.from + 1, at)
    lines[#lines + 1] = ("  if which == %d then for k = 1, %d do if %s then %s end end end"):format(n, most, b.condition,
      b.as == "then" and body or "else " .. body)
    if b.miss == 0 then -- of a tensor, which a call has one element shorter
      body = body:gsub("t%d+%[", "x[")
      lines[#lines + 1] = ("  if which == -%d then for k = 1, %d do if %s then %s end end end"):format(n, most, b.condition,
        b.as == "then" and body or "else " .. body)
    end
  end
  lines[#lines + 1] = "end"
  local head = {}
  for n = 1, most do
    local t = {}
    for k = 1, n do t[k] = 10 * n + k end
    head[n] = ("local t%d = { %s }"):format(n, table.concat(t, ", "))
  end
  return table.concat(head, "\n") .. "\n" .. table.concat(lines, "\n")
end

local function tensors(n)
  local x = tide.arange(101, 101 + math.max(n, 1), { dtype = "int64", device = D.dev })
  return tide.zeros({ 1 }, { dtype = "int64", device = D.dev }), x:narrow(1, 1, n)
end

-- What a call leaves, or the index that it says is outside.
local function outcome(f, which, n)
  local y, x = tensors(n)
  local ok, e = pcall(function()
    f(1, y, x, which)
    return y:item()
  end)
  if ok then return e end
  e = tostring(e)
  return e:match "got (%-?%d+)" or e:find "a nil value" and "nil" or "another error: " .. e
end

-- Plain Lua finds nil in a list where a kernel names the index.
local function agree(want, got)
  return want == got or (want == "nil" and type(got) == "string" and tonumber(got) ~= nil)
end

describe("an index behind a comparison", function()
  D.watch(before_each, after_each)

  for op in pairs(operators) do
    it("that is k " .. op .. " c", function()
      local all, missed = branches(op), 0
      for first = 1, #all, 40 do -- a kernel has so many branches
        local list = { table.unpack(all, first, math.min(first + 39, #all)) }
        local body = assert(load(text_of(list)))()
        local k = tide.kernel(body)
        local function interpret(...) return tide.kernel.interpret(body, ...) end
        for _, when in ipairs { "before", "after" } do
          for n, b in ipairs(list) do
            local size = b.to - b.from + 1
            for _, call in ipairs { { n, 1 }, b.miss == 0 and { -n, size } or nil, b.miss == 0 and { -n, size - 1 } or nil } do
              local want, got = outcome(interpret, call[1], call[2]), outcome(k, call[1], call[2])
              missed = missed + (type(want) == "string" and 1 or 0)
              assert(agree(want, got), ("%s, %s, off by %d, %s it is compiled: got %s, plain Lua gives %s"):format(b.condition, b.as,
                b.miss, when, tostring(got), tostring(want)))
            end
          end
          if when == "before" then k:wait() end
        end
      end
      assert.is_true(missed > 40, missed)
    end)
  end
end)
