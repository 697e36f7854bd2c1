-- The prompt, driven through a pipe and through a terminal of script(1).

local D = require "spec.support.device"

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
  end)

  it("continues lines", function()
    local text = session "for i = 1, 2 do\nprint('line ' .. i)\nend\nx = {\n1,\n2}\n#x\n"
    has(text, "line 1\n")
    has(text, "line 2\n")
    has(text, "2\n")
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
    local text, code = session(":time os.execute('(sleep 0.3; kill -INT $PPID) &') tide.cuda._sleep(2000000000)\n40 + 2\n",
      { TIDE_SIM_DEVICES = "1" })
    assert.are.equal(0, code, text)
    has(text, "interrupted")
    has(text, "42\n")
  end)

  it("works in a terminal, with history", function()
    if not os.execute "command -v script >/dev/null 2>&1" then return end
    local history, typed = os.tmpname(), os.tmpname()
    local file = assert(io.open(typed, "w"))
    file:write "21 * 2\nfor i = 1, 1 do\nprint('in a loop')\nend\n"
    file:close()
    local command = "env TERM=xterm TIDE_HISTORY=" .. history .. " " .. D.runner .. " -i"
    local pipe = io.popen("(sleep 0.5; cat " .. typed .. "; sleep 0.5; printf '\\004') | timeout 20 script -qec " .. D.quote(command)
      .. " /dev/null 2>&1")
    local text = pipe:read "a"
    pipe:close()
    has(text, "42")
    has(text, "in a loop")
    file = assert(io.open(history))
    local kept = file:read "a"
    file:close()
    os.remove(history)
    os.remove(typed)
    has(kept:gsub("\\040", " "), "21 * 2")
  end)
end)
