-- load_csv and save_csv: numbers, headers, what is missing, quotes, line ends, columns, errors with their place.

local tide = require "tide"
local D = require "spec.support.device"

local path = os.tmpname()

local function put(text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end

local function load_text(text, options)
  put(text)
  return tide.load_csv(path, options)
end

local function saved(x, options)
  tide.save_csv(path, x, options)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function fails(kind, what, text, options)
  put(text)
  local e = D.raises(kind, tide.load_csv, path, options)
  assert.is_truthy(e.message:find(what, 1, true), e.message)
end

describe("load_csv", function()
  D.watch(before_each, after_each)
  teardown(function() os.remove(path) end)

  it("reads numbers of every form", function()
    D.eq({ { 1, -2.5 }, { 300, 0.125 }, { 0.5, 5 } }, load_text("1,-2.5\n3e2,.125\n+0.5, 5. \n"))
    D.eq({ { 1e300, -1e-300 } }, load_text("1e300,-1e-300", { dtype = tide.float64 }))
    local x = load_text("inf,-Infinity,true,FALSE\n")
    D.eq({ { math.huge, -math.huge, 1, 0 } }, x)
    assert.are.equal(tide.get_default_dtype(), x.dtype)
  end)

  it("rounds as Lua does", function()
    local list = { "0.1", "0.2", "1e22", "1e23", "123456789012345678", "9007199254740993", "9007199254740992.5", "2.2250738585072011e-308",
      "4.9e-324", "1.7976931348623157e308", "0.000000000000000000000000000123456789", "3.141592653589793238462643383279",
      "5e-1", "1234567890123456789012345678901234567890", "8.5e-22", "7e-23", "-0.0", "1e400", "1e-400" }
    for i = 1, 300 do list[#list + 1] = ("%.17g"):format(math.sin(i) * 10.0 ^ (i % 60 - 30)) end
    for i = 1, 300 do list[#list + 1] = ("%.9g"):format(math.cos(i) * 10.0 ^ (i % 40 - 20)) end
    local x = load_text(table.concat(list, "\n") .. "\n", { dtype = tide.float64, header = false })
    assert.are.equal(#list, #x)
    local got = x:view(-1):totable()
    for i, text in ipairs(list) do assert.are.equal(tonumber(text) + 0.0, got[i], text) end
    assert.are.equal(-math.huge, 1 / got[17])
  end)

  it("finds a header, or takes the option", function()
    local x, names = load_text("x,y\n1,2\n")
    D.eq({ { 1, 2 } }, x)
    assert.are.same({ "x", "y" }, names)
    x, names = load_text("1,2\n3,4\n")
    D.eq({ { 1, 2 }, { 3, 4 } }, x)
    assert.is_nil(names)
    x, names = load_text("1,2\n3,4\n", { header = true })
    D.eq({ { 3, 4 } }, x)
    assert.are.same({ "1", "2" }, names)
    fails("FileError", "line 1, column 1: got 'x', expected a number", "x,y\n1,2\n", { header = false })
    x, names = load_text('"a ""b""","c, d",  "e\nf" \n1,"2", "3"\n')
    D.eq({ { 1, 2, 3 } }, x)
    assert.are.same({ 'a "b"', "c, d", "e\nf" }, names)
  end)

  it("takes columns by name and number", function()
    local text = "a,b,c\n1,x,3\n4,y,6\n"
    local x, names = load_text(text, { columns = { "c", 1 } })
    D.eq({ { 3, 1 }, { 6, 4 } }, x)
    assert.are.same({ "c", "a" }, names)
    x, names = load_text(text, { columns = "c" })
    D.eq({ 3, 6 }, x)
    assert.are.same({ "c" }, names)
    assert.are.equal(1, x.ndim)
    D.eq({ 1, 4 }, load_text(text, { columns = 1 }))
    D.eq({ { 1 }, { 4 } }, load_text(text, { columns = { 1 } }))
    fails("FileError", "line 2, column 2 ('b'): got 'x', expected a number", text)
    fails("ValueError", "columns: got 'd', expected one of: a, b, c", text, { columns = { "d" } })
    fails("ValueError", "columns: got column 4, expected one of 1 to 3", text, { columns = { 4 } })
    fails("ValueError", "columns: got column 1 twice", text, { columns = { "a", 1 } })
    fails("ValueError", "the file has no header", "1,2\n", { columns = "a" })
    fails("ValueError", "columns: got an empty list", text, { columns = {} })
    fails("ArgumentError", "columns: got boolean true, expected a name", text, { columns = true })
    fails("ArgumentError", "names or numbers of columns", text, { columns = { 1.5 } })
  end)

  it("knows what is missing", function()
    local x = load_text("1,\n,2\nNA,nan\nNone,n/a\n,null\n"):totable()
    for _, at in ipairs { { 1, 2 }, { 2, 1 }, { 3, 1 }, { 3, 2 }, { 4, 1 }, { 4, 2 }, { 5, 1 }, { 5, 2 } } do
      assert.is_true(x[at[1]][at[2]] ~= x[at[1]][at[2]])
    end
    D.eq({ { 1, -1 }, { -1, 2 } }, load_text("1,\n,2\n", { missing = -1 }))
    D.eq({ { 1, -1 }, { -1, 2 } }, load_text("1,\n,2\n", { missing = -1, dtype = tide.int16 }))
    fails("FileError", "line 2, column 1: got '', expected an integer; missing = n", "1,3\n,2\n", { dtype = tide.int64 })
    fails("ValueError", "missing: got", "1,2\n", { missing = 300, dtype = tide.uint8 })
    fails("ValueError", "missing: got", "1,2\n", { missing = 0.5, dtype = tide.int64 })
  end)

  it("makes every real dtype, integers exactly", function()
    for _, name in ipairs(D.dtypes) do
      if D.kind[name] == "C" then
        fails("DtypeError", "expected a real one", "1,0\n", { dtype = name })
      else
        local x = load_text("1,0\n0,1\n", { dtype = name })
        assert.are.equal(name, D.dtype_name(x))
        D.eq({ { 1, 0 }, { 0, 1 } }, x:to(tide.float64))
      end
    end
    local x = load_text("9223372036854775807,-9223372036854775808\n2e3,+5.0\n", { dtype = tide.int64 })
    assert.are.same({ { math.maxinteger, math.mininteger }, { 2000, 5 } }, x:totable())
    fails("FileError", "line 1, column 1: got '256', expected an integer that fits in uint8", "256\n", { dtype = tide.uint8 })
    fails("FileError", "got '1.5', expected an integer", "1.5\n", { dtype = tide.int32 })
    fails("FileError", "got '9223372036854775808', expected an integer", "9223372036854775808\n", { dtype = tide.int64, header = false })
    -- Beyond both ends, beyond 64 bits, where sums of digits start anew, and beyond what a number has digits.
    for _, digits in ipairs { "9223372036854775809", "18446744073709551615", "18446744073709551616", "18446744073709551617",
      "99999999999999999999", "27670116110564327425", "340282366920938463463374607431768211457" } do
      for _, sign in ipairs { "", "-", "+" } do
        fails("FileError", "expected an integer", sign .. digits .. "\n", { dtype = tide.int64, header = false })
      end
    end
  end)

  it("gives the ends of the integers", function()
    for _, text in ipairs { "-9223372036854775808", "9223372036854775807", "-9223372036854775807", "+9223372036854775807" } do
      assert.are.equal(math.tointeger(text), load_text(text .. "\n", { dtype = tide.int64, header = false }):item())
    end
  end)

  it("reads numbers at the ends of what it computes itself, and what is longer", function()
    local list = { "9007199254740991e22", "9007199254740992e22", "9007199254740993e22", "9007199254740992e-22", "9007199254740993e-22", "3e22", "3e23",
      "3e-22", "3e-23", "1844674407370955161", "9999999999999999999", "18446744073709551615", "18446744073709551616", "18446744073709551617e1",
      "0.00000000000000000001", "0.000000000000000000001", "0.0000000000000000000001", "0.00000000000000000000001", "1e99999", "1e-99999", "1e100000",
      "1e1000000", "7e-1000000", "0e5", "00012", "1.e2", ".5e-3", "1E5", "1e+05", ("0"):rep(1023) .. "7", "7" .. ("0"):rep(1023), "0." .. ("0"):rep(1021) .. "7",
      "-" .. ("0"):rep(1022) .. "7", "." .. ("0"):rep(1022) .. "7" }
    local x = load_text(table.concat(list, "\n") .. "\n", { dtype = tide.float64, header = false }):view(-1):totable()
    for i, text in ipairs(list) do assert.are.equal(tonumber(text) + 0.0, x[i], text) end
    for _, text in ipairs { ("0"):rep(1024) .. "7", "." .. ("0"):rep(1024), "0." .. ("0"):rep(1022) .. "7", "1e", "1e+", ".", "-", "+", "e5", "1.2.3", "1e5.", "--1", "0x10", "1_0", "1e5e",
      "1d5", "infinit", "-nan1", "tru", "truee" } do
      fails("FileError", "line 1, column 1: got '", text .. "\n", { dtype = tide.float64, header = false })
    end
  end)

  it("takes what is missing at the ends of the integers", function()
    for dtype, ends in pairs { uint8 = { 0, 255 }, int8 = { -128, 127 }, int16 = { -32768, 32767 }, int32 = { -2147483648, 2147483647 },
      int64 = { -9007199254740992, 9007199254740992 }, bool = { 0, 1 } } do
      for _, value in ipairs(ends) do
        local x = load_text("1,\n,1\n", { dtype = dtype, missing = value, header = false })
        assert.are.equal(dtype == "bool" and value == 1 or dtype ~= "bool" and value, x[1][2]:item(), dtype)
      end
      for _, value in ipairs { ends[1] - (dtype == "int64" and 2 or 1), ends[2] + (dtype == "int64" and 2 or 1), 0.5, 0 / 0 } do
        fails("ValueError", "expected an integer that fits in " .. dtype, "1,\n", { dtype = dtype, missing = value })
      end
      if dtype ~= "int64" and dtype ~= "bool" then
        local text = ("%d,%d\n"):format(ends[1], ends[2])
        D.eq({ { ends[1], ends[2] } }, load_text(text, { dtype = dtype, header = false }))
        fails("FileError", "column 1: got '" .. ends[1] - 1 .. "', expected an integer that fits in " .. dtype, ends[1] - 1 .. "\n", { dtype = dtype, header = false })
        fails("FileError", "column 1: got '" .. ends[2] + 1 .. "', expected an integer that fits in " .. dtype, ends[2] + 1 .. "\n", { dtype = dtype, header = false })
      end
    end
    D.eq({ { 0, 7, 0 } }, load_text("-0,0000000000000000007,+0\n", { dtype = "int64", header = false }))
    D.eq({ { 9007199254740992 } }, load_text("9007199254740992.0\n", { dtype = "int64", header = false }))
    fails("FileError", "expected an integer", "9007199254740994.0\n", { dtype = "int64", header = false })
    fails("FileError", "expected an integer", "1.5\n", { dtype = "int64", header = false })
  end)

  it("lists the first twenty columns of a file", function()
    for n = 19, 22 do
      local names = {}
      for i = 1, n do names[i] = "c" .. i end
      local list = table.concat(names, ", ", 1, math.min(n, 20)) .. (n > 20 and ", ..." or "")
      put(table.concat(names, ",") .. "\n" .. ("1,"):rep(n - 1) .. "1\n")
      local e = D.raises("ValueError", tide.load_csv, path, { header = true, columns = "none" })
      assert.are.equal("load_csv: columns: got 'none', expected one of: " .. list, e.message)
    end
    for _, i in ipairs { 0, 3, -1, 1 << 40 } do fails("ValueError", ("got column %d, expected one of 1 to 2"):format(i), "1,2\n", { columns = { i } }) end
  end)

  it("reads fields that end anywhere near the end of a piece", function()
    for _, piece in ipairs { 1 << 18, 1 << 19 } do
      for n = piece - 6, piece + 2 do
        local _, names = load_text('"' .. ("x"):rep(n) .. '",b\n1,2\n', { header = true })
        assert.are.same({ n, "b" }, { #names[1], names[2] })
        _, names = load_text(("x"):rep(n - 1) .. '"",b\r\n1,2\r\n', { header = true })
        assert.are.equal(n + 1, #names[1])
        D.eq({ { 1, 2 }, { 3, 4 } }, load_text("#" .. (" "):rep(n) .. "\n1,2\n\n3,4", { comment = "#" }))
        local x = load_text(("7\n"):rep(n // 2) .. '"8"\n9', { dtype = "uint8", header = false })
        D.eq({ { 7 }, { 8 }, { 9 } }, x:narrow(1, n // 2, 3))
        assert.are.equal(n // 2 + 2, #x)
      end
    end
  end)

  it("reads every kind of line, and lines that are left out", function()
    local want = { { 1, 2 }, { 3, 4 } }
    for _, text in ipairs { "1,2\r\n3,4\r\n", "\239\187\1911,2\n3,4", "\n1,2\n\n  \n3,4\n\n", " 1 ,\t2\n3,4\r\n\r\n", '"1","2"\r\n"3" ,4' } do
      D.eq(want, load_text(text), nil, text)
    end
    for _, text in ipairs { "", "\n", "\239\187\191", "\239\187\191\n", " \r\n" } do
      local nothing, names = load_text(text)
      assert.are.same({ 0, 0 }, nothing:size())
      assert.is_nil(names)
    end
    D.eq(want, load_text("made by\nx, y, z\n1,2\n3,4\n", { skip = 2 }))
    D.eq(want, load_text("# made by\n1,2\n # between\n3,4\n#end", { comment = "#" }))
    for delimiter, text in pairs { [";"] = "1;2\n3;4\n", ["\t"] = "1\t2\n3\t4\n", [" "] = "  1   2 \n3\t4\n", ["|"] = "1|2\n3| 4" } do
      D.eq(want, load_text(text, { delimiter = delimiter }), nil, delimiter)
    end
    local x, names = load_text("a\tb c\n\t5\n", { delimiter = "\t" })
    assert.are.same({ "a", "b c" }, names)
    assert.is_true(x[1][1]:item() ~= x[1][1]:item() and x[1][2]:item() == 5)
    for _, bad in ipairs { "", ",,", "\n", "1", "." } do fails("ValueError", "delimiter: got '", "1,2\n", { delimiter = bad }) end
  end)

  it("reads files without rows", function()
    local x, names = load_text("")
    assert.are.same({ 0, 0 }, { x:size(1), x:size(2) })
    assert.is_nil(names)
    x, names = load_text("a,b,c\n")
    assert.are.same({ 0, 3 }, { x:size(1), x:size(2) })
    assert.are.same({ "a", "b", "c" }, names)
    x = load_text("a,b,c\r\n", { columns = "b", dtype = tide.int32 })
    assert.are.same({ 0 }, { x:size(1) })
    assert.are.equal(0, load_text("1\n2\n", { skip = 5 }):numel())
    fails("ValueError", "is empty", "", { columns = "a" })
  end)

  it("refuses what is no table of numbers, with its place", function()
    fails("FileError", "line 3: got 1 field, expected 2, as in the first line", "1,2\n3,4\n5\n")
    fails("FileError", "line 2: got 3 fields, expected 2", "1,2\n3,4,5\n")
    fails("FileError", "line 4, column 2 ('y'): got 'two', expected a number", 'x,"y"\n\n1,2\n3,two\n')
    fails("FileError", "line 5, column 1: got '1.2.3', expected a number", '"1","2"\n"3",4\n"5",6\n\n1.2.3,4\n')
    fails("FileError", "a quote that does not end", '1,2\n"3,4\n')
    fails("FileError", "behind a closing quote", '1,2\n"3"x,4\n')
    fails("FileError", "UTF-16", "\255\2541\0,\0")
    for _, text in ipairs { "a,b\r1,2\r", "1,2\r3,4\r", "1,2\n3,4\r5,6" } do fails("FileError", "a lone CR, expected lines that end in LF or CRLF", text) end
    for delimiter, shown in pairs { [";"] = ";", ["\t"] = "\\t", [" "] = " " } do
      fails("FileError", "expected a number; delimiter = '" .. shown .. "' splits such lines", (("a,b\n1,2\n"):gsub(",", delimiter)))
    end
    fails("FileError", "expected 1, as in the first line; delimiter = ';', skip = 1 and comment = '#'", "a;b\n1,5;2,5\n")
    for _, bad in ipairs { "0x10", "1e", "e5", "-", "1e+", "--1", "1 2", "1_0", "infinite", "1\0" } do
      fails("FileError", "expected a number", "1\n" .. bad .. "\n")
    end
    fails("FileError", "got '" .. ("9"):rep(40) .. "...', expected a number", "1\n" .. ("9"):rep(5000) .. "\n")
    assert.are.equal("FileError", D.raises("FileError", tide.load_csv, path .. ".none").kind)
    D.raises("ArgumentError", tide.load_csv, path, { heading = true })
  end)

  it("reads long files, lines longer than a piece, and an open file from where it is", function()
    local rows = {}
    for i = 1, 60000 do rows[i] = i .. "," .. i / 8 .. ',"' .. -i .. '"' end
    local x = load_text(table.concat(rows, "\r\n"), { dtype = tide.float64 })
    assert.are.same({ 60000, 3 }, { x:size(1), x:size(2) })
    D.eq({ 60000 * 60001 / 2, 60000 * 60001 / 16, -60000 * 60001 / 2 }, x:sum(1))
    local wide = {}
    for i = 1, 100000 do wide[i] = i .. ".5" end
    local line = table.concat(wide, ",")
    x = load_text(line .. "\n" .. line, { dtype = tide.float64 })
    assert.are.same({ 2, 100000 }, { x:size(1), x:size(2) })
    assert.are.equal(99999.5 + 1, x[2][100000]:item())
    local names
    x, names = load_text('"' .. ("n\n"):rep(300000) .. '",b\n1,2\n')
    assert.are.equal(600000, #names[1])
    D.eq({ { 1, 2 } }, x)
    put "not this\na,b\n1,2\n"
    local file = assert(io.open(path))
    file:read "l"
    x, names = tide.load_csv(file)
    D.eq({ { 1, 2 } }, x)
    assert.are.same({ "a", "b" }, names)
    file:close()
    D.raises("StateError", tide.load_csv, file)
  end)

  it("puts the tensor on a device", function()
    local x = load_text("1,2\n3,4\n", { device = D.dev })
    assert.are.equal(D.dev, tostring(x.device))
    D.eq({ { 1, 2 }, { 3, 4 } }, x)
  end)
end)

describe("save_csv", function()
  D.watch(before_each, after_each)

  it("and load_csv let hooks run", function()
    finally(function() debug.sethook() end)
    local function calls(x, run)
      local count = 0
      tide.save_csv(path, x)
      debug.sethook(function() count = count + 1 end, "c")
      run(x)
      debug.sethook()
      return count
    end
    local long, short = tide.zeros(200000, 4, { device = D.dev }), tide.zeros(2, 4, { device = D.dev })
    for name, run in pairs { save_csv = function(x) tide.save_csv(path, x) end, load_csv = function() return tide.load_csv(path) end } do
      assert(calls(long, run) > calls(short, run) + 4, name)
    end
  end)

  teardown(function() os.remove(path) end)

  it("writes rows, a header, integers and booleans", function()
    assert.are.equal("1,2\n3,4\n", saved(D.tensor({ { 1, 2 }, { 3, 4 } }, tide.float32)))
    assert.are.equal("1\n-2\n", saved(D.tensor({ 1, -2 }, tide.int64)))
    assert.are.equal("1\n0\n", saved(tide.tensor { true, false }))
    assert.are.equal(("%d\n%d\n"):format(math.maxinteger, math.mininteger), saved(tide.tensor { math.maxinteger, math.mininteger }))
    assert.are.equal('x,"a ""b""","c;d",""\n1,2,3,4\n', (saved(tide.tensor { { 1, 2, 3, 4 } }, { header = { "x", 'a "b"', "c;d", "" } }):gsub('c;d', '"c;d"', 0):gsub("c;d", '"c;d"')))
    assert.are.equal('x;"c;d"\n1;2\n', saved(tide.tensor { { 1, 2 } }, { header = { "x", "c;d" }, delimiter = ";" }))
    assert.are.equal("nan,inf,-inf\n", saved(tide.tensor { { 0 / 0, math.huge, -math.huge } }))
    assert.are.equal(",1\n", saved(tide.tensor { { 0 / 0, 1 } }, { missing = "" }))
    assert.are.equal("", saved(tide.zeros(0, 3)))
    assert.are.equal("1,3\n2,4\n", saved(tide.tensor { { 1, 2 }, { 3, 4 } }:t()))
  end)

  it("writes the shortest decimals, that read back as the same numbers", function()
    assert.are.equal("0.1,0.25,-3.5,100000,16777216\n", saved(tide.tensor { { 0.1, 0.25, -3.5, 1e5, 16777216 } }))
    assert.are.equal("0.1,0.3,-1e+300\n", saved(tide.tensor({ { 0.1, 0.3, -1e300 } }, { dtype = tide.float64 })))
    local g = tide.Generator():manual_seed(7)
    for _, dtype in ipairs { tide.float32, tide.float64 } do
      local x = tide.randn(300, 7, { dtype = dtype, generator = g }) * (tide.randn(300, 7, { dtype = dtype, generator = g }) * 20):exp()
      x[1] = tide.tensor({ 0, -0.0, 1e-30, 1e30, 1 / 3, 123456.789, 2 ^ -126 }, { dtype = dtype })
      tide.save_csv(path, x)
      local y = tide.load_csv(path, { dtype = dtype })
      assert.is_true(x:equal(y))
      assert.is_true(x[1]:totable()[2] == 0 and 1 / y[1][2]:item() == -math.huge)
    end
    for _, name in ipairs { "float16", "bfloat16" } do
      local x = tide.randn(50, { generator = g }):to(name)
      tide.save_csv(path, x)
      assert.is_true(x:equal(tide.load_csv(path, { dtype = name, columns = 1, header = false })))
    end
  end)

  it("refuses other shapes, complex numbers, a header of another length", function()
    local function fails_to(kind, what, ...)
      local e = D.raises(kind, tide.save_csv, path, ...)
      assert.is_truthy(e.message:find(what, 1, true), e.message)
    end
    fails_to("ShapeError", "x: got 3 dimensions, expected 1 or 2", tide.ones(1, 1, 1))
    fails_to("ShapeError", "x: got 0 dimensions", tide.tensor(1))
    fails_to("DtypeError", "expected real numbers", tide.ones(2, { dtype = tide.complex64 }))
    fails_to("ValueError", "header: got 1 names, expected 2, one for each column", tide.ones(2, 2), { header = { "x" } })
    fails_to("ArgumentError", "header: got number 1, expected names", tide.ones(2, 2), { header = { 1, 2 } })
    fails_to("ValueError", "missing: got 'a,b'", tide.ones(2, 2), { missing = "a,b" })
    fails_to("ValueError", "delimiter: got '::'", tide.ones(2, 2), { delimiter = "::" })
  end)

  it("keeps the file that was there after an error", function()
    put "before"
    D.raises("ValueError", tide.save_csv, path, tide.ones(2, 2), { header = { "x" } })
    local file = assert(io.open(path))
    assert.are.equal("before", file:read "a")
    file:close()
  end)

  it("writes to an open file behind what is there", function()
    local file = assert(io.open(path, "w"))
    file:write "# mine\n"
    tide.save_csv(file, tide.tensor { { 1, 2 } })
    tide.save_csv(file, tide.tensor { { 3, 4 } })
    file:close()
    D.eq({ { 1, 2 }, { 3, 4 } }, tide.load_csv(path, { comment = "#" }))
  end)
end)
