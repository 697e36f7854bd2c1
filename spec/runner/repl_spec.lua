-- The prompt, driven through a pipe and through a terminal.

local D = require "spec.support.device"
local T = require "spec.support.terminal"

local function session(input, env)
  local out, err, code = D.run({ "-i" }, { input = input, env = env })
  return out .. err, code
end
local function has(text, what) assert.is_truthy(text:find(what, 1, true), "no '" .. what .. "' in: " .. text) end
local function lacks(text, what) assert.is_falsy(text:find(what, 1, true), "'" .. what .. "' in: " .. text) end

describe("the prompt", function()
  it("prints the results of expressions", function()
    local text, code = session "1 + 1\n'a', nil, true\n= 5\nx = 3\nx * 2\n"
    assert.are.equal(0, code)
    has(text, "2\n")
    has(text, "a")
    has(text, "nil")
    has(text, "5\n")
    has(text, "6\n")
  end)

  it("prints tensors as torch prints them, summarised", function()
    local text = session "tide.tensor{1., 2.}\ntide.zeros(1):expand(1000000000)\n"
    has(text, "tensor([1., 2.])")
    has(text, "tensor([0., 0., 0.,  ..., 0., 0., 0.])")
    text = session "x = tide.plot({1, 2})\nx\ntide.zeros(2, 1, 3, {dtype = tide.uint8})\nx:mul_(0):sum()\n"
    has(text, "picture of 800 x 560 pixels: x:imshow() shows it, tide.save_png writes it\n")
    has(text, "[[0, 0, 0]]], dtype=tide.uint8)\n")
    has(text, "tensor(0)\n")
  end)

  it("continues lines", function()
    local text = session "for i = 1, 2 do\nprint('line ' .. i)\nend\nx = {\n1,\n2}\n#x\n"
    has(text, "line 1\n")
    has(text, "line 2\n")
    has(text, "2\n")
  end)

  it("says what a user of Python meant, behind Lua's own messages", function()
    local cases = {
      { "x @ x", "matmul" }, { "x += 1", "x:add_(1)" }, { "x++", "x:add_(1)" }, { "x != x", "~=" }, { "x:sum(dim=1)", "x:sum{dim = 1}" },
      { "x[1:2]", "x[{ {1, 2} }]" }, { "x[:,1]", "x[{ {}, 1 }]" }, { "x[1,2]", "x[{1, 2}]" }, { "größe = 1", "a to z" }, { "print(“x”)", "quotes" }, { "import tide", "require \"tide\"" },
      { "x:shape", "behind a dot, x.shape" }, { "x.shape()", "x.shape[1]" }, { "x:dtype()", "x:to(tide.float64)" }, { "x.T()", "a field" },
      { "x:device()", "x:to('cuda')" }, { "x(1)", "x[1]" }, { "x:is_cuda()", "x.is_cuda" }, { "x:ndim()", "x.ndim" }, { "tide.int32(3)", "x:to(tide" }, { "tide.Tensor(2)", "tide.empty(2, 3)" }, { "torch.ones(2)", "the module is tide" },
      { "2**3", "x ^ 2" }, { "print(3**2)", "x ^ 2" }, { "x //= 2", "x // 2" }, { "x %= 2", "x % 2" }, { "y = x && x", "x & y" }, { "y = x || x", "x | y" },
      { "y = x ? 1 : 2", "c and x or y" }, { "for (k = 0; k < 3; k++) do end", "for i = 1, n" }, { "unpack{1}", "table.unpack" }, { "// no", "begins with --" },
      { "len(x)", "#x" }, { "sqrt(4)", "math.sqrt, and tide.sqrt of tensors" }, { "relu(x)", "tide.relu" }, { "math.sin(x)", "tide.sin takes tensors" },
      { "for row in x do end", "ipairs(x)" }, { "for v in {1} do end", "ipairs(list)" }, { "for i = 1, x do end", "#x" },
      { "x.item + 1", "x:item()" }, { "x:repeat(2)", "x:tile" }, { "x:and(x)", "x:logical_and" },
      { "(x == 1):sum()", "x:eq(y)" }, { "(x == 1) * 3", "x:eq(y)" }, { "y = [1, 2]", "{1, 2, 3}" }, { "'a' + 'b'", "joined by .." },
      { "'a' .. x.shape", "tostring(x.shape)" }, { "enumerate(x)", "ipairs(list)" }, { "y = {keepdim = True}", "stdin:1: undefined global 'True'; Lua's word is true\n" },
      { "help matmul", "batches broadcast" }, { "?matmul", "batches broadcast" }, { "x:matmul?", "batches broadcast" }, { "no_such(1)", "(global 'no_such')\n" }, { "pritn(1)", "did you mean 'print'?" },
      { "mth.sqrt(2)", "did you mean 'math'?" },
    }
    for _, case in ipairs(cases) do
      local text, code = session("x = tide.ones(2, 3)\n" .. case[1] .. "\nprint('go' .. 'on')\n")
      has(text, case[2])
      has(text, "goon")
      assert.are.equal(0, code)
    end
  end)

  it("warns of undefined globals that the user's text reads", function()
    local out, err = D.run({ "-i" }, { input = "local data = 1\nx = dat\nprint(lenn, lenn)\nlen(x)\n_\nif nothing then end\nrequire 'string'\n" })
    has(out, "nil\tnil\n")
    has(err, "undefined global 'dat', did you mean 'data'?\n")
    local _, count = err:gsub("'lenn'", "")
    assert.are.equal(1, count)
    has(err, "undefined global 'nothing'\n")
    lacks(err, "undefined global 'len'") -- the error says it
    has(err, "(global 'len'); the length is #x")
    lacks(err, "global '_'")
    _, err = D.run({ "-W", "off", "-i" }, { input = "x = dat\n" })
    lacks(err, "undefined")
    _, err = D.run({ "-i" }, { input = "package.preload.m = load('return unknown_here', '=m.lua')\nrequire 'm'\n" })
    lacks(err, "undefined")
    _, err = D.run({ "--strict", "-i" }, { input = "local data = 1\nx = dat\n" })
    has(err, "stdin:1: undefined global 'dat'")
    lacks(err, "Lua warning")
  end)

  it("shows how a function is called that is only looked at", function()
    has(session "x = tide.ones(2)\nx.item\n", "function: x:item() ")
    has(session "tide.zeros\n", "function: tide.zeros(")
    has(session "print\n", "function: ")
  end)

  it("keeps the session after errors", function()
    local text, code = session "error 'first'\nx =\n+\n)\ntide.zeros(2):view(3)\nprint 'alive'\n"
    has(text, "first")
    has(text, "view")
    has(text, "alive\n")
    assert.are.equal(0, code)
  end)

  it("remembers the last result in _", function()
    local text = session "6 * 7\n_ + 1\nprint(_)\n"
    has(text, "43\n")
  end)

  it("runs a script or -e first", function()
    local out = D.run({ "-i", "-e", "y = 12" }, { input = "y + 1\n" })
    has(out, "13\n")
  end)

  it("shows results of several lines below each other, and tables by their keys", function()
    local text = session "tide.ones(2, 2):max(1)\ntide.tensor{{1}, {2}}:sort(1)\n{3, 4, b = 1, a = 2, c = {x = 1}}\n"
    has(text, "tensor([1., 1.])\ttensor([1, 1])\n")
    has(text, "tensor([[1],\n        [2]])\ntensor([[1],\n        [2]])\n")
    has(text, "{3, 4, a = 2, b = 1, c = {x = 1}}\n")
  end)

  it("helps", function()
    local text = session "help('tide.add')\n"
    has(text, "add")
    has(text, "x + y")
    text = session "help(tide.zeros)\n"
    has(text, "zeros")
    text = session "help 'no_such_thing_at_all'\n"
    has(text, "no_such_thing_at_all")
    text = session "help()\n"
    assert.is_true(#text > 100)
    text = session "help(print)\n"
    has(text, "help: name: got function")
    lacks(text, "tide: stdin:1") -- as in Lua's prompt no program's name stands in front
    lacks(text, D.runner .. ": ")
  end)

  it("helps with every function and class of the tables of tide, and with objects", function()
    local function walk(path, t)
      for name, v in pairs(t) do
        local class = type(v) == "table" and (rawget(v, "is") or (getmetatable(v) or {}).__call)
        if type(v) == "function" and name ~= "is" or class then
          local ok, text = pcall(tide.help, v)
          assert.is_true(ok and #text > 20, path .. "." .. name .. ": " .. tostring(text))
        end
      end
    end
    walk("tide", tide)
    for _, name in ipairs { "cuda", "random", "fft" } do walk(name, tide[name]) end
    for _, name in ipairs { "memory", "graphs", "streams", "random", "jiterator", "Stream", "Event" } do
      walk("cuda." .. name, tide.cuda[name])
    end
    has(tide.help(tide.cuda.CUDAGraph()), "replay")
    has(tide.help(tide.Generator()), "manual_seed")
    has(tide.help(tide.backends.cuda.cufft_plan_cache), "max_size")
    assert.is_nil(tide.help(tide.cuda.get_rng_state):find("CPU's", 1, true)) -- of its own, not of a namesake
  end)

  it("has commands", function()
    local text, code = session(":mem\n:help\n:nonsense\n", { TIDE_SIM_DEVICES = "1" })
    assert.are.equal(0, code)
    has(text, "nonsense")
  end)

  it("ends a session with a table, a function, a cycle", function()
    local text = session "t = {1, 2, x = {3}}\nt\nt.t = t\nt\nprint\n{}\n"
    has(text, "1")
    lacks(text, "stack traceback")
  end)

  it("prints tables whole or says that there is more, objects in them too", function()
    local text, code = session [[
t = {} for i = 1, 30 do t[i] = i end
t
{dev = tide.device(0), cpu = tide.device "cpu", e = tide.cuda.OutOfMemoryError, 7}
{tide.device(1), tide.device(2), {tide.device(3)}, last = 1}
"a\0b"
tide.cuda
]]
    assert.are.equal(0, code)
    has(text, "22, 23, 24, ...}")
    has(text, "dev = cuda:0")
    has(text, "cpu = cpu")
    has(text, "{cuda:1, cuda:2, {cuda:3}, last = 1}")
    has(text, "a\0b")
    lacks(text, "traceback")
  end)

  it("lives on when the wait of :time is interrupted", function()
    D.in_time(2, function(seconds)
      local text, code = session((":time os.execute('(sleep 0.3; kill -INT $PPID) &') tide.cuda._sleep(%d000000000)\n40 + 2\n"):format(seconds),
        { TIDE_SIM_DEVICES = "1", TIDE_SIM_CLOCK = "real" })
      assert.are.equal(0, code, text)
      has(text, "interrupted")
      has(text, "42\n")
    end)
  end)

  it("collects what results that were printed held, but the last", function()
    for device, after in pairs { cpu = ":mem\n", cuda = "print('held', tide.cuda.memory_allocated())\n" } do
      local before = "collectgarbage 'incremental' collectgarbage('setpause', 1000)\nfunction big() return tide.ones(1 << 20, {device = '"
        .. device .. "'}) end\n"
      local text, code = session(before .. ("big()\n"):rep(20) .. ("{big()}\n"):rep(20) .. "big()\nprint(_:numel())\n" .. after,
        { TIDE_SIM_DEVICES = "1" })
      assert.are.equal(0, code)
      has(text, "1048576\n")
      if device == "cuda" then assert.is_true(tonumber(text:match "held\t(%d+)") <= 5 << 20, text)
      else assert.is_true(tonumber(text:match "cpu +([%d.]+) MiB") <= 5, text) end
    end
  end)
end)

describe("local variables at the prompt", function()
  it("live on in the session", function()
    local text, code = session [[
local a, b = 1, {2}
a + b[1]
local function twice(x) return x * 2 end
twice(21)
a = a + 10
local function get() return a end
a = a + 100
get() .. '!'
local s = "local q = 1 -- " local u = 5 --[==[ local v = 1
]==] local w = [=[ local z = 2 ]=]
u, q, v, z, #w
]]
    assert.are.equal(0, code)
    has(text, "3\n")
    has(text, "42\n")
    has(text, "111!\n")
    has(text, "5\tnil\tnil\tnil\t13\n")
  end)

  it("are Lua's: shadowed anew, shared by functions, read before they are set again", function()
    local text = session [[
local x = 1 local function old() return x end
local x = x + 1 local function new() x = x + 1 return x end
old(), new(), x
local x = 'third'
old(), new(), x
local print = print
local type = nil
type
do local inner = 1 end for i = 1, 2 do local inner = i end
inner
local m <const>, n = 7, 8
n = m + n
n, m
m = 1
local t = { f = function() local hidden = 1 return hidden end }
hidden, t.f()
local f = (function(a) local k = a if k then return k end repeat local k = 2 until k end)
k, f(3)
local g = tide.ones{2, 1}:sum() : item() local h = -g ^ 2 .. 'h' local k <const> = not g == #'a' or {g}
k[1], h
]]
    has(text, "1\t3\t3\n")
    has(text, "1\t4\tthird\n")
    has(text, "nil\n")
    has(text, "15\t7\n")
    has(text, "attempt to assign to const variable 'm'")
    has(text, "nil\t1\n")
    has(text, "nil\t3\n")
    has(text, "2.0\t-4.0h\n")
  end)

  it("stay where an error ends the chunk, and close with it", function()
    local text = session [[
local before = 'kept' error 'in between' local after = 1
before, after
local c <close> = setmetatable({}, {__close = function() print 'closed' end}) print 'open'
c
local _ = 12 local _ENV = {p = print} p 'inside'
print '_ENV is back'
local a = 1 local a = 2 local b = a
a, b
local y
y = 4
y, _G.y
goto out local skipped = 1 ::out::
local broken = = 1
local p = 3 return p
local 1
]]
    has(text, "kept\tnil\n")
    has(text, "open\nclosed\n")
    has(text, "inside\n")
    has(text, "_ENV is back\n")
    has(text, "2\t2\n")
    has(text, "4\tnil\n")
    has(text, "stdin:1: unexpected symbol near '='")
    has(text, "> 3\n")
    has(text, "<name> expected near '1'")
    lacks(text, "_tide_keep_")
  end)

  it("cost no more than an upvalue, however many there are", function()
    local lines = {}
    for i = 1, 400 do lines[i] = ("local v%d = %d"):format(i, i) end
    local text, code = session(table.concat(lines, "\n") .. "\nv1 + v400\nlocal sum = 0 for i = 1, 1e6 do sum = sum + i end\nsum\n")
    assert.are.equal(0, code)
    has(text, "401\n")
    has(text, "500000500000\n")
  end)
end)

-- The thread sanitizer holds signals back until the next system call.
describe("the prompt in a terminal", function()
  local enter = "\r"

  it("edits lines, with history", function()
    local history = os.tmpname()
    local text, code = T.session({ "21 * 2\r", { expect = "42" }, "for i = 1, 1 do\r", { expect = ">> " }, "print('in a ' .. 'loop')\r",
      "end\r", { expect = "in a loop" }, "1\27[D2\5\0271\r", T.settle, "\4" }, { history = history })
    assert.are.equal(0, code, text)
    local file = assert(io.open(history))
    local kept = file:read "a"
    file:close()
    os.remove(history)
    has(kept:gsub("\\040", " "), "21 * 2")
    has(kept, "for\\040i\\040=\\0401,\\0401\\040do\\012print")
  end)

  it("says how to begin and how to leave, and leaves in every way", function()
    for _, last in ipairs { "\4", "quit\r", "exit\r", "quit()\r", " exit ( ) \r", ":quit\r", ":q\r", "os.exit(0)\r" } do
      local text, code = T.session { last }
      assert.are.equal(0, code, last .. text)
      has(text, "help()")
      has(text, ":quit")
    end
    local _, code = T.session { "quit = 1\r", "quit\r", { expect = "1" }, "exit(3)\r", { expect = "attempt to call a nil value" },
      "os.exit(7)\r" }
    assert.are.equal(7, code)
  end)

  it("takes a paste as one chunk, tabs and all", function()
    local text, code = T.session { { paste = "local a = 1\nif a then\n\tlocal b = 'tab\there'\n\tprint(a, (b:gsub('\t', '-')))\nend\nlocal tide = tide\nprint(tide.ones(2))\n" },
      { expect = "1\ttab-here" }, { expect = "tensor([1., 1.])" }, { paste = "40 + 2" }, { expect = "40 + 2" }, enter, { expect = "42" },
      { paste = "x = 1\n" }, { paste = "print('both', x)\n" }, { expect = "both\t1" }, { paste = "" }, T.settle, "\4" }
    assert.are.equal(0, code, text)
    lacks(text, "traceback")
  end)

  it("reads UTF-8, whatever the locale", function()
    for _, locale in ipairs { "C", "C.UTF-8", "no_such" } do
      local text, code = T.session({ "'n' .. #'größe €'\r", { expect = "n11" }, "#'añb'\27[D\27[D\127..'m'\27[D\27[D\27[D\27[D\27[D\r", T.settle, "\4" },
        { env = { LC_ALL = locale } })
      assert.are.equal(0, code, text)
    end
  end)

  it("completes names, behind calls and indexes too, options, and what help knows", function()
    local begin = { "local mine = tide.ones(2, 3) tab = {mine, k = {abc = 1, n = function() end}}\r", T.settle }
    local cases = {
      { "tide.nonz\t", "tide.nonzero" }, { "min\t", "mine" }, { "tab.k.a\t", "tab.k.abc" }, { "tab['k'].a\t", "abc" },
      { "mine:argma\t", "mine:argmax" }, { "mine.sha\t", "mine.shape" }, { "mine:exp():argma\t", "argmax" },
      { "mine[1]:argma\t", "argmax" }, { "tab[1]:argma\t", "argmax" }, { "(mine + 1):argma\t", "argmax" },
      { "tide.zeros(2):argma\t", "argmax" }, { "tide.ones(2)[1]:exp().T:argma\t", "argmax" },
      { "mine.H:argma\t", "argmax" }, { "mine.mT:argma\t", "argmax" },
      { "tide.cuda.Stream():wait_st\t", "wait_stream" }, { "tide.zeros(2, {dev\t", "device = " },
      { "tide.zeros(2, {dtype = tide.int32, dev\t", "device = " }, { "mine:sum(1, {keep\t", "keepdim = " },
      { "help 'cuda.empty_c\t", "empty_cache" }, { "help('tide.cuda.empty_c\t", "empty_cache" }, { "help \"Tensor:argma\t", "argmax" },
      { ":dev\t", ":devices" }, { ":help argma\t", "argmax" }, { ":time tide.nonz\t", "nonzero" },
    }
    for _, case in ipairs(cases) do
      for _, step in ipairs { case[1], T.settle, "\12", { expect = case[2] }, "\21", T.settle } do begin[#begin + 1] = step end
    end
    begin[#begin + 1] = "\4"
    local text, code = T.session(begin)
    assert.are.equal(0, code, text)
  end)

  it("completes what is before the cursor, and keeps what is behind it", function()
    local steps = { "local mine = 1\r", T.settle }
    for _, case in ipairs { { "(tide.nonz)", 1, "(tide.nonzero)" }, { "x = tide.nonz + 1", 4, "tide.nonzero + 1" }, { "min tide.ones", 10, "mine tide.ones" },
      { "tide.nonz.shape", 6, "tide.nonzero.shape" } } do
      for _, step in ipairs { case[1] .. ("\27[D"):rep(case[2]) .. "\t", T.settle, "\12", { expect = case[3] }, "\21", T.settle } do steps[#steps + 1] = step end
    end
    steps[#steps + 1] = "\4"
    local text, code = T.session(steps)
    assert.are.equal(0, code, text)
  end)

  it("completes nothing in strings and comments, and runs nothing of the user's", function()
    local steps = { "ran = 0 trap = setmetatable({}, {__index = function() ran = ran + 1 end, __call = error})\r", T.settle }
    for _, typed in ipairs { "print('tide.nonz", "-- tide.nonz", "trap.x.y", "trap():z", "trap[1].a", "nothing.at.all", "((((", "}):x", "[[",
      "'", "x[", ":", ".", "1.", "tide.nonz " } do
      for _, step in ipairs { typed .. "\t", T.settle, "\12", T.settle, "\21", T.settle } do steps[#steps + 1] = step end
    end
    steps[#steps + 1] = "'ran' .. ran\r"
    steps[#steps + 1] = { expect = "ran0" }
    steps[#steps + 1] = T.settle
    steps[#steps + 1] = "\4"
    local text, code = T.session(steps)
    assert.are.equal(0, code, text)
    lacks(text, "tide.nonzero")
  end)

  it("goes on at keys that mean nothing", function()
    for _, key in ipairs { "\0", "\7", "\27[Z" } do
      local text, code = T.session { key, T.settle, "'al' .. 'ive'\r", { expect = "alive" }, "os.exit(3)\r" }
      assert.are.equal(3, code, text)
    end
  end)

  it("drops the line at Ctrl-C, and stops what runs", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local text, code = T.session({ "this is dropped\3", { expect = "> " }, "for i = 1, 2 do\r", { expect = ">> " }, "\3", { expect = "> " },
      "print('re' .. 'ad') while true do end\r", { expect = "read" }, "\3", { expect = "interrupted" }, { expect = "> " },
      "x = tide.ones(1, {device = 'cuda'}) tide.cuda._sleep(1 << 40) print('wa' .. 'it') x:item()\r", { expect = "wait" }, "\3\3\3",
      { expect = "interrupted" }, { expect = "> " }, "40 + 2\r", { expect = "42" }, "os.exit(0)\r" }, { env = { TIDE_SIM_DEVICES = "1" } })
    assert.are.equal(0, code, text)
  end)

  it("stops what catches errors at the second Ctrl-C, and closes what is to be closed", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local loops = {
      "while true do pcall(function() while true do end end) end",
      "while true do xpcall(function() while true do end end, function(e) return e end) end",
      "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
      "while true do pcall(coroutine.wrap(function() while true do end end)) end",
      "while true do load(function() while true do end end) end",
      "pcall(pcall, function() while true do pcall(function() local c <close> = setmetatable({}, {__close = function() n = n + 1 end}) while true do end end) end end)",
    }
    for _, loop in ipairs(loops) do
      local text, code = T.session { "n = 0\r", { expect = "> " }, "print('be' .. 'gun') " .. loop .. "\r", { expect = "begun" },
        { stop = "interrupted" }, { expect = "> " }, "print('li' .. 'ves', n)\r", { expect = "lives" }, "os.exit(0)\r" }
      assert.are.equal(0, code, loop .. text)
    end
  end)

  it("loses no line after Ctrl-C has dropped one that was about to be read", function()
    local library = D.runner:gsub("bin/tide$", "spec/lost_input.so")
    local steps = {}
    for line = 1, 4 do steps[line] = "this is dropped " .. line .. "\3" end
    for line = 1, 40 do
      steps[#steps + 1] = "x = " .. line .. "\r"
      steps[#steps + 1] = T.settle
    end
    for _, last in ipairs { "print('still ' .. 'alive', x)\r", { expect = "still alive\t40" }, "os.exit(5)\r" } do steps[#steps + 1] = last end
    for _, term in ipairs { "dumb", "xterm" } do
      local text, code = T.session(steps, { term = term, env = { LD_PRELOAD = library, ASAN_OPTIONS = "verify_asan_link_order=0" } })
      assert.are.equal(5, code, text)
      lacks(text, "stdin:1:")
    end
  end)

  it("survives storms of interruptions while a paste is read", function()
    local program = {}
    for i = 1, 2000 do program[i] = ("x%d = %d -- a line of a large paste"):format(i, i) end
    program = table.concat(program, "\n") .. "\n"
    local steps = {}
    for part = 1, 12 do
      local from = (part - 1) * 4000 % #program + 1
      if part % 3 == 1 then steps[#steps + 1] = "\27[200~" end
      steps[#steps + 1] = program:sub(from, from + 3999):gsub("\n", "\r")
      steps[#steps + 1] = { interrupt = 40 }
      steps[#steps + 1] = part % 2 == 1 and "\3\3\3" or "a.b\t\3"
      if part % 4 == 1 then steps[#steps + 1] = "\27[201~" end
    end
    for _, last in ipairs { "\3", T.rest, "\3", T.rest, "\21print('still ' .. 'alive')\r", { expect = "still alive" }, "os.exit(5)\r" } do
      steps[#steps + 1] = last
    end
    local text, code = T.session(steps)
    assert.are.equal(5, code, text:sub(-400))
    text, code = T.session(steps, { term = "dumb" })
    assert.are.equal(5, code, text:sub(-400))
  end)
end)
