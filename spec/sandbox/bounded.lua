-- Functions of Lua's library that may run as long as a script says: they end with the script, and give what Lua's give.

--- string.rep of nothing
--! quota milliseconds=300
assert((""):rep(1 << 62) == "" and (""):rep(1 << 62, "") == "" and (""):rep(-1) == "" and (""):rep(3, "-") == "--" and ("ab"):rep(2) == "abab")

--- table.move of nothing
--! quota milliseconds=200
--! raises used up
--! ends
while true do table.move({}, 1, 1 << 61, 2) end

--- table.move that the host kills
--! kill 100
--! raises the host has ended this work
--! ends
while true do pcall(table.move, {}, 1, 1 << 61, 2) end

--- table.insert by a length that is not one
--! kill 100
--! raises the host has ended this work
local t = setmetatable({}, { __len = function() return 1 << 60 end })
while true do pcall(table.insert, t, 1, 1) end

--- table.insert into a table of few elements that is long
--! kill 100
--! raises the host has ended this work
local t = {}
for k = 0, 62 do t[1 << k] = true end
while true do pcall(table.insert, t, 1, 1) end

--- table.remove, by instructions
--! quota instructions=1000000
--! raises used up
--! ends
local t = setmetatable({}, { __len = function() return 1 << 60 end })
while true do pcall(table.remove, t, 1) end

--- table.sort of nothing
--! kill 100
--! raises the host has ended this work
local t = setmetatable({}, { __len = function() return (1 << 31) - 2 end })
while true do pcall(table.sort, t, rawequal) end

--- table.concat of empty elements
--! kill 100
--! raises the host has ended this work
while true do pcall(table.concat, setmetatable({}, { __index = table.concat }), "", 1, 1 << 60) end

--- a reader of load that is in C
--! kill 100
--! raises the host has ended this work
while true do load(collectgarbage) end

--- string.find of plain text
--! quota milliseconds=200
--! memory 100
--! raises used up
--! ends
local s, part = ("a"):rep(1 << 24), ("a"):rep(1 << 23) .. "b"
while true do pcall(string.find, s, part, 1, true) end

--- patterns that go back
--! quota milliseconds=200
--! raises used up
--! ends
local s = ("a"):rep(40)
while true do pcall(string.find, s, ("a*"):rep(20) .. "b") end

--- patterns that go back, that the host kills
--! kill 100
--! raises the host has ended this work
local s, pattern = ("a"):rep(40), ("a-"):rep(20) .. "b"
local calls = { string.match, string.gsub, function(s, p) for _ in s:gmatch(p) do end end }
while true do for _, f in ipairs(calls) do pcall(f, s, pattern, "") end end

--- captures that go back
--! quota instructions=1000000
--! raises used up
("a"):rep(100000):match("(.-)(.-)(.-)%1%2%3b")

--- balance that is not found
--! quota milliseconds=200
--! memory 100
--! raises used up
while true do ("("):rep(1 << 20):find "%b()" end

--- table's functions are as ever otherwise
local function log(t) return setmetatable({}, { __index = t, __newindex = t, __len = function() return #t end }) end
for _, way in ipairs { function(t) return t end, log } do
  local t = { 1, 2, 3 }
  local v = way(t)
  table.insert(v, 4) table.insert(v, 1, 0) table.insert(v, 6, 5)
  assert(table.concat(t, ",") == "0,1,2,3,4,5" and table.concat(v, "", 2, 4) == "123" and table.concat(v, "x", 3, 2) == "")
  assert(table.remove(v, 1) == 0 and table.remove(v) == 5 and #t == 4 and table.remove(v, 5) == nil)
  assert(table.move(v, 1, 4, 2) == v and table.concat(t, ",") == "1,1,2,3,4")
  assert(table.move(v, 2, 5, 1) == v and table.concat(t, ",", 1, 4) == "1,2,3,4")
  local other = {}
  assert(table.move(v, 2, 3, 5, other) == other and other[5] == 2 and other[6] == 3)
  table.sort(v, function(a, b) return a > b end)
  assert(table.concat(t, ",") == "4,4,3,2,1")
  table.sort(v)
  assert(table.concat(t, ",") == "1,2,3,4,4")
end
assert(table.remove {} == nil and table.remove({}, 0) == nil)
local big = {}
for i = 1, 30000 do big[i] = (i * 7919) % 30011 end
table.sort(big)
for i = 2, #big do assert(big[i - 1] < big[i]) end
table.sort(big, function(a, b) return a > b end)
for i = 2, #big do assert(big[i - 1] > big[i]) end
for _, case in ipairs {
  { "wrong number of arguments to 'insert'", table.insert, {} }, { "position out of bounds", table.insert, {}, 3, 1 },
  { "position out of bounds", table.remove, { 1 }, 7 }, { "table expected, got number", table.insert, 1, 1 },
  { "too many elements", table.move, {}, -1, math.maxinteger, 1 }, { "destination wrap", table.move, {}, 1, 2, math.maxinteger },
  { "invalid value %(table%) at index 2 in table for 'concat'", table.concat, { 1, {} } }, { "attempt to compare", table.sort, { 1, "x" } },
  { "function expected", table.sort, { 2, 1 }, 1 }, { "table expected", table.concat, tide.ones }, { "invalid order", table.sort,
    { 3, 1, 2, 5, 4, 6 }, function() return true end },
} do
  local ok, e = pcall(table.unpack(case, 2))
  assert(not ok and tostring(e):find(case[1]), tostring(e))
end

--- functions of table and string.rep give what Lua's give
--! give strings
local seed = 5
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648 return seed // 65536 % n + 1 end
local ends = { math.mininteger, math.mininteger + 1, math.maxinteger - 1, math.maxinteger, -1, 0, 1, 2, 3, 4, 5, 6, 7, 0.5, 2.0, "2", "x", {}, false }
local function number() return random(6) == 1 and ends[random(#ends)] or random(9) - 2 end
local values = { 1, 2, 3, 4, 5, 1.5, "a", "b", "", "10", -7 }
-- A table, or one whose accesses are noted and go through metamethods.
local function made(elements, noted, log)
  local t = { table.unpack(elements, 1, elements.n) }
  if not noted then return t, t end
  return setmetatable({}, { __len = function() return elements.length or elements.n end,
    __index = function(_, k) log[#log + 1] = "get " .. tostring(k) return t[k] end,
    __newindex = function(_, k, v) log[#log + 1] = ("set %s %s"):format(k, v) t[k] = v end }), t
end
local function shown(t, log)
  local out = {}
  for k = -3, 14 do out[#out + 1] = tostring(t[k]) end
  return table.concat(out, ",") .. " " .. table.concat(log, ";")
end
local function result(lib, name, elements, other, noted, extra)
  local log = {}
  local t, plain = made(elements, noted, log)
  local o, plain_other = made(other, noted, log)
  local args = { t, table.unpack(extra, 1, extra.n) }
  if extra.other then args[5] = o end
  local out = { pcall(lib[name], table.unpack(args, 1, extra.other and 5 or extra.n + 1)) }
  for i = 1, #out do out[i] = rawequal(out[i], t) and "same" or rawequal(out[i], o) and "other" or tostring(out[i]) end
  for i = 1, #out do out[i] = out[i]:gsub("0x%x+", ""):gsub("'table%.%w+'", "'?'"):gsub("argument #%d", "argument") end -- as versions of Lua count
  if name == "sort" then log = {} end -- Lua draws pivots of its own
  return table.concat(out, "|") .. " " .. #out .. " " .. shown(plain, log) .. " " .. shown(plain_other, {})
end
local good = 0
local function compare(name, elements, other, noted, extra)
  local mine, its = result(table, name, elements, other, noted, extra), result(tables, name, elements, other, noted, extra)
  good = good + (mine:sub(1, 4) == "true" and 1 or 0)
  assert(mine == its, ("%s(%s): %s, not %s"):format(name, table.concat(elements, " "), mine, its))
end
for i = 1, 1000 do
  local elements, other, noted = { n = random(9) - 1 }, { n = random(4) }, i % 2 == 0
  for k = 1, elements.n do elements[k] = values[random(i % 5 == 0 and #values or 6)] end
  for k = 1, other.n do other[k] = "o" .. k end
  local few = { n = random(3) - 1, number(), number(), number() }
  compare("insert", elements, other, noted, { n = random(4) - 1, number(), "new", 3 })
  compare("remove", elements, other, noted, { n = random(3) - 1, number(), 3 })
  compare("unpack", elements, other, noted, few)
  compare("concat", elements, other, noted, { n = random(4) - 1, ({ "", "-", ", " })[random(3)], number(), number() })
  local from = random(9) - 4
  compare("move", elements, other, noted, { n = 3, from, from + random(7) - 3, random(12) - 4, other = random(3) == 1 })
end
assert(good > 3000, good)
-- What is empty at one end, or as long as can be.
for _, case in ipairs { { math.maxinteger, math.maxinteger, math.maxinteger }, { math.mininteger, math.mininteger, 1 }, { 1, 0, math.maxinteger },
  { 1, 2, math.maxinteger - 1 }, { 0, math.maxinteger - 1, 1 }, { 0, math.maxinteger, 1 }, { -1, math.maxinteger - 1, 1 }, { 1, math.maxinteger, 2 } } do
  local few = setmetatable({}, { __index = function() error "read" end })
  local mine, its = select(2, pcall(table.move, few, case[1], case[2], case[3])), select(2, pcall(tables.move, few, case[1], case[2], case[3]))
  assert(rawequal(mine, its) or tostring(mine):gsub("'table.move'", "'?'") == tostring(its):gsub("'table.move'", "'?'"), tostring(mine) .. ", not " .. tostring(its))
end
local long = ("x"):rep(200)
local words = { long .. "b", long .. "a", long, long .. "a\0", ("x"):rep(129), ("x"):rep(128), "", "y", long .. "ab", ("x"):rep(40000) .. "b", ("x"):rep(40000) .. "a",
  ("x"):rep(16384) .. "c", ("x"):rep(16384), ("x"):rep(16385) }
for _, order in ipairs { false, function(a, b) return a > b end, function(a, b) return #a < #b or #a == #b and a < b end } do
  for n = 0, 40 do
    local a = {}
    for k = 1, n do a[k] = words[random(#words)] end
    local b = { table.unpack(a) }
    table.sort(a, order or nil) tables.sort(b, order or nil)
    for k = 1, n do assert(a[k] == b[k]) end
  end
end
for _, order in ipairs { 1, "x", {} } do -- not looked at where nothing is sorted
  local mine, its = pcall(table.sort, {}, order), pcall(tables.sort, {}, order)
  assert(mine == its)
end
assert(not pcall(table.sort, setmetatable({}, { __len = function() return (1 << 31) - 1 end })))
for _, order in ipairs { function() return true end, function(a, b) return a <= b end } do
  for n = 1, 12 do
    local a, b = {}, {}
    for k = 1, n do a[k], b[k] = 1, 1 end
    local mine, its = select(2, pcall(table.sort, a, order)), select(2, pcall(tables.sort, b, order))
    assert(mine == its, ("%d: %s, not %s"):format(n, mine, its))
  end
end
for _, s in ipairs { "", "a", "abc", 12 } do
  for _, n in ipairs { math.mininteger, -1, 0, 1, 2, 3, 17, 1000, math.maxinteger, "3", 2.0, 2.5, "x" } do
    for _, between in ipairs { false, "", "-", "--" } do
      if s == "abc" or n ~= math.maxinteger then -- else Lua's would go on without end
        local mine, its = table.pack(pcall(string.rep, s, n, between or nil)), table.pack(pcall(strings.rep, s, n, between or nil))
        assert(mine[1] == its[1] and (mine[2] == its[2] or not mine[1]) and mine.n == its.n, ("rep(%q, %s, %q)"):format(s, n, between))
      end
    end
  end
end
for _, case in ipairs { { 1 }, { 2 }, { 3 }, { 4 }, { -1 }, { -3 }, { "#" }, { "2" }, { 2.0 } } do
  local n = case[1] == "#" and 1 or math.tointeger(case[1])
  local out = table.pack(select(case[1], "a", "b", "c"))
  assert(case[1] == "#" and out[1] == 3 or out.n == (n > 0 and 4 - n or -n) and (out.n == 0 or out[out.n] == "c"))
end
for _, case in ipairs { 0, -4, "x", 1.5, math.mininteger } do assert(not pcall(select, case, 1, 2, 3)) end
local function of_locals() local name = 1 return name end
for _, strips in ipairs { false, true, 1 } do assert(string.dump(of_locals, strips) == strings.dump(of_locals, strips)) end
assert(#string.dump(of_locals, true) < #string.dump(of_locals) and not pcall(string.dump, print) and not pcall(string.dump, 1))

--- patterns are as ever otherwise
--! give strings
local seed = 1
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648 return seed // 65536 % n + 1 end
local pieces = { "a", "b", ".", "%a", "%A", "[ab]", "[^a]", "[%d-]", "[a-c]", "%d", "%1", "%2", "(", ")", "()", "%b()", "%bab", "%f[%a]",
  "%f[^a]", "^", "$", "*", "+", "-", "?", "%", "[", "]", "%%", "\0", "%g", "%x", "%W", "%f", "%b", "%0", "[]", "[]]", "[^]", "[%", "x", "%." }
local letters = { "a", "b", "(", ")", "1", " ", "\0", "c", "]", "%", "-", "\255", "B" }
local replacements = { "", "x", "%0", "%1", "%2", "%%", "%", "<%0%1>", function(a, b) return b end, function() end, { a = "A", b = 1, ab = false },
  function() return {} end, 5 }
local function made(list, n)
  local out = {}
  for i = 1, random(n) - 1 do out[i] = list[random(#list)] end
  return table.concat(out)
end
local function results(...)
  local out = { n = select("#", ...), ... }
  for i = 1, out.n do out[i] = type(out[i]) == "function" and "function" or tostring(out[i]) end
  local text = table.concat(out, "|"):gsub(" in replacement string", "") -- as some versions of Lua say
  return (text:gsub("'string%.%w+'", "'?'")) -- Lua finds the name of what stands in its own table
end
local function each(gmatch, s, p, init)
  local out = {}
  for a, b in gmatch(s, p, init) do out[#out + 1] = results(a, b) end
  return table.concat(out, ";")
end
local good = 0
for i = 1, 60000 do
  local s, p = made(letters, 12), made(pieces, 7)
  local init = i % 3 == 0 and random(20) - 10 or nil
  local plain = i % 50 == 0 or nil
  local r = replacements[random(#replacements)]
  for _, case in ipairs { { "find", s, p, init, plain }, { "match", s, p, init }, { "gsub", s, p, r, i % 5 == 0 and random(4) - 2 or nil } } do
    local name = case[1]
    local mine = results(pcall(string[name], table.unpack(case, 2, 5)))
    local its = results(pcall(strings[name], table.unpack(case, 2, 5)))
    good = good + (mine:sub(1, 4) == "true" and 1 or 0)
    assert(mine == its, ("%s(%q, %q, %s): %q, not %q"):format(name, s, p, tostring(case[4]), mine, its))
  end
  local mine, its = results(pcall(each, string.gmatch, s, p, init)), results(pcall(each, strings.gmatch, s, p, init))
  assert(mine == its, ("gmatch(%q, %q): %q, not %q"):format(s, p, mine, its))
end
assert(good > 60000, good)
for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
  for _, arguments in ipairs { {}, { 1 }, { "x", {} }, { "x", "x", {} }, { {}, "x" }, { "x", "x", "x", "y" }, { 12, 1, 1 } } do
    assert(results(pcall(string[name], table.unpack(arguments))) == results(pcall(strings[name], table.unpack(arguments))), name)
  end
end
local deep = ("a?"):rep(300)
for _, s in ipairs { "", "a", ("a"):rep(250) } do
  assert(results(pcall(string.find, s, deep)) == results(pcall(strings.find, s, deep)))
end

--- collections without end, of many objects
--! quota milliseconds=300
--! raises used up
--! ends
local t = {}
for i = 1, 300000 do t[i] = {} end
while true do pcall(collectgarbage) end

--- collections in C
--! kill 400
--! raises the host has ended this work
local t, words = {}, {}
for i = 1, 300000 do t[i] = {} end
for i = 1, 1000 do words[i] = "collect" end
while true do
  pcall(table.sort, words, collectgarbage)
  pcall(string.gsub, ("collect"):rep(10000), "collect", collectgarbage)
end

--- long strings, again and again
--! quota milliseconds=300
--! memory 200
--! raises used up
--! ends
local s = ("x"):rep(1 << 24)
while true do
  for _, name in ipairs { "upper", "lower", "reverse" } do pcall(string[name], s) end
  pcall(string.format, "%s", s)
  pcall(string.rep, "x", 1 << 24)
end

--- results without end
--! kill 200
--! memory 200
--! raises the host has ended this work
while true do pcall(table.unpack, {}, 1, 900000) end

--- names of megabytes
--! quota milliseconds=100
--! raises used up
--! ends
local name = ("x "):rep(1 << 22)
while true do tide.has(name) end

--- names of megabytes that are caught
--! kill 100
--! raises the host has ended this work
local name = ("x "):rep(1 << 22)
while true do
  pcall(function() return tide[name] end)
  pcall(tide.zeros, 2, { dtype = name })
  pcall(tide.zeros, 2, { [name] = 1 })
  pcall(tide.func, name)
  pcall(tide.kernel, name)
end

--- long tables that are written
--! quota milliseconds=100
--! memory 500
--! raises used up
--! ends
local list = {}
for i = 1, 1000000 do list[i] = i end
while true do pcall(tide.serialize, list) end

--- errors name the function and the script's line
for expected, f in pairs {
  ["bad argument #2 to 'rep' %(number expected, got table%)"] = function() string.rep("x", {}) end,
  ["resulting string too large"] = function() ("x"):rep(1 << 62, "yy") end,
  ["bad argument #1 to 'upper' %(string expected"] = function() string.upper({}) end,
  ["bad argument #2 to 'unpack' %(number expected"] = function() table.unpack({}, {}) end,
  ["too many results to unpack"] = function() table.unpack({}, 1, 1 << 40) end,
  ["bad argument #1 to 'collectgarbage' %(invalid option 'x'%)"] = function() collectgarbage "x" end,
  ["bad argument #1 to 'setmetatable' %(table expected"] = function() setmetatable(1, {}) end,
  ["bad argument #2 to 'setmetatable' %(nil or table expected"] = function() setmetatable({}, 1) end,
  ["cannot change a protected metatable"] = function() setmetatable(setmetatable({}, { __metatable = 1 }), {}) end,
  ["bad argument #1 to 'sort' %(table expected"] = function() table.sort(1) end,
  ["bad argument #2 to 'sort' %(function expected"] = function() table.sort({ 1, 2 }, 1) end,
  ["invalid order function for sorting"] = function() table.sort({ 1, 2, 3, 4, 5, 6, 7 }, function() return true end) end,
  ["bad argument #2 to 'find' %(string expected"] = function() string.find("x", {}) end,
  ["bad argument #3 to 'format' %(number expected"] = function() string.format("%s %d", 1, "x") end,
} do
  local ok, e = pcall(f)
  assert(not ok and e:find(expected) and e:find '^%[string "errors name[^:]*:%d+: ', e)
end
assert(select("#", table.unpack({ 1, nil, 3 }, 1, 3)) == 3 and select("#", table.unpack({}, 3, 2)) == 0 and table.unpack { 7 } == 7)
assert(collectgarbage "count" > 0 and collectgarbage() == 0 and collectgarbage("step", 10) ~= nil and ("aB"):upper() == "AB")
assert(table.unpack(setmetatable({}, { __index = function(_, k) return k end, __len = function() return 3 end })) == 1)
local t, m = {}, {}
assert(setmetatable(t, m) == t and getmetatable(t) == m and setmetatable(t, nil) == t and not getmetatable(t))

--- texts of megabytes that are compiled
--! quota milliseconds=100
--! memory 200
--! raises used up
--! ends
local text = ("x = 1 "):rep(1 << 20)
while true do pcall(load, text) end

--- strings of megabytes that are read as numbers
--! quota cpu_ms=100
--! memory 200
--! raises used up
--! ends
local s = ("1"):rep(1 << 24)
while true do
  for _, f in ipairs { tonumber, math.tointeger, math.floor, select, function(s) return s * 2 end } do pcall(f, s) end
end

--- strings of megabytes that are formatted and packed
--! quota cpu_ms=100
--! memory 200
--! raises used up
--! ends
local s = ("\0b"):rep(1 << 21)
while true do
  pcall(string.format, "%q", s)
  pcall(string.pack, ("b"):rep(1 << 22), 1, 2)
  pcall(function() return string.char(s:byte(1, 500000)) end)
end

--- a set of megabytes in a pattern
--! kill 100
--! raises the host has ended this work
local s, pattern = ("a"):rep(1 << 16), "[" .. ("b"):rep(1 << 20) .. "]*c"
while true do pcall(string.find, s, pattern) end

--- sorted strings of megabytes
--! quota cpu_ms=100
--! raises used up
--! ends
local t = {}
for i = 1, 20 do t[i] = ("x"):rep(1 << 20) .. 7919 * i % 20 end
while true do pcall(table.sort, t) end
--- a long set costs its length at each character
--! quota instructions=5000000
--! raises used up
--! ends
local s, set = ("a"):rep(40), "[" .. ("b"):rep(1000) .. "a]*"
for i = 1, 2000 do s:match(set) end
--- a short set costs little
--! quota instructions=5000000
local s, set = ("a"):rep(40), "[bcda]*"
for i = 1, 2000 do s:match(set) end
