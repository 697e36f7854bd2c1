-- The runner: options, standard input, shebang, arg, exit codes, tracebacks, interruption.

local tide = require "tide"
local D = require "spec.support.device"

local function write(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

describe("the runner", function()
  it("runs -e, in order, with tide as a global", function()
    local out, err, code = D.run { "-e", "x = 1", "-e", "print(x, tide.is_tensor(tide.zeros(2)))" }
    assert.are.equal("1\ttrue\n", out, err)
    assert.are.equal(0, code)
    assert.are.equal("", err)
    assert.are.equal("5\n", (D.run { "-eprint(5)" }))
    assert.are.equal("true\n", (D.run { "-e", "print(require 'tide' == tide)" }))
  end)

  it("requires with -l", function()
    assert.are.equal("true\n", (D.run { "-l", "tide", "-e", "print(tide ~= nil)" }))
    assert.are.equal("true\tnil\n", (D.run { "-l", "t=tide", "-e", "print(t == package.loaded.tide, mod)" }))
    local _, err, code = D.run { "-l", "no_such_module", "-e", "print(1)" }
    assert.are.equal(1, code)
    assert.is_truthy(err:find("no_such_module", 1, true))
  end)

  it("tells its version", function()
    local out, _, code = D.run { "-v" }
    assert.are.equal(0, code)
    assert.is_truthy(out:find "^tide %d+%.%d+%.%d+", out)
    assert.is_truthy(out:find("Lua 5.4", 1, true))
  end)

  it("has long options: the version, simulated GPUs, the default device", function()
    local out, err, code = D.run { "--version", "-e", "print 'not run'" }
    assert.are.equal(0, code)
    assert.is_truthy(out:find "^tide %d+%.%d+%.%d+" and not out:find "not run", out)
    local child = "print(tide.cuda.device_count(), tide.ones(1).device, arg[1]) tide.multiprocessing.spawn(function() print(tide.cuda.device_count()) end, { nprocs = 1 })"
    local path = write(child)
    for _, words in ipairs { { "--sim", "2", "--device", "cuda:1", path, "x" }, { "--sim=2", "--device=cuda:1", path, "x" } } do
      out, err, code = D.run(words, { env = { TIDE_SIM_DEVICES = "5" } })
      assert.are.equal("2\tcuda:1\tx\n2\n", out, err)
      assert.are.equal(0, code)
    end
    os.remove(path)
    for _, bad in ipairs { { "--sim", "two" }, { "--sim", "-1" }, { "--sim", "65" }, { "--sim=" }, { "--sim" }, { "--device" }, { "--device", "gpu" },
      { "--device", "cuda:2", "--sim", "2" } } do
      bad[#bad + 1] = bad[2] and "-e" or nil
      bad[#bad + 1] = bad[2] and "print 'ran'" or nil
      out, err, code = D.run(bad)
      assert.are.equal(2, code, table.concat(bad, " "))
      assert.are.equal("", out)
      assert.is_truthy(err:find(bad[1]:match "^%-%-%a+", 1, true) and err:find("\nusage: ", 1, true), err)
    end
  end)

  it("has --strict, which refuses to read undefined globals", function()
    local path = write("counter = 1\nunset = nil\nprint(unset, rawget(_G, 'nope'), #arg)\nlocal f = tide.fuse(function(x) return x * counter end)\n"
      .. "print(f(tide.ones(1)), tide.kernel(function(i, x) return x[i] + counter end)(1, tide.ones(1)))\nother = counter\nprint(countr)\n")
    local out, err, code = D.run { "--strict", path, "x" }
    assert.are.equal("nil\tnil\t1\ntensor([1.])\ttensor([2.])\n", out)
    assert.are.equal(1, code)
    assert.is_truthy(err:find(":7: undefined global 'countr', did you mean 'counter'?\n", 1, true), err)
    assert.are.equal("nil\tnil\t0\ntensor([1.])\ttensor([2.])\nnil\n", (D.run { path }))
    os.remove(path)
    for text, what in pairs { ["print(zeros)"] = "'zeros'; there is tide.zeros", ["np.ones()"] = "'np'; the module is tide",
      ["_G.abcdef = _G.abcdeg"] = "undefined global 'abcdeg'\n", ["print(prnt)"] = "did you mean 'print'?" } do
      out, err, code = D.run { "--strict", "-e", text }
      assert.are.equal("1", code .. out, text)
      assert.is_truthy(err:find(what, 1, true), err)
    end
    out, _, code = D.run { "-e", "setmetatable(_G, { __index = function(_, k) return k == 'made' and 5 or nil end })", "--strict", "-e", "print(made)" }
    assert.are.equal("5\n", out) -- the script has set its own
    _, err = D.run({ "--strict" }, { input = "print(undefined_one)" })
    assert.is_truthy(err:find("undefined global 'undefined_one'", 1, true), err)
    for word, says in pairs { True = "true", False = "false", None = "nil" } do -- without --strict, too
      _, err, code = D.run { "-e", "x = {keepdim = " .. word .. "}" }
      assert.are.equal(1, code)
      assert.is_truthy(err:find(":1: undefined global '" .. word .. "'; Lua's word is " .. says .. "\n", 1, true), err)
    end
    assert.are.equal("nil\t4\tnil\n", (D.run { "-e", "True = 4 print(rawget(_G, 'None'), True, Nothing)" }))
    _, err, code = D.run { "--strct" }
    assert.are.equal(2, code)
    assert.is_truthy(err:find("did you mean --strict?", 1, true), err)
  end)

  it("keeps what LUA_INIT has set behind the globals, with --strict", function()
    local init = "setmetatable(_G, { __index = function(_, k) if k == 'made' then return 5 end end, __newindex = function(t, k, v) rawset(t, k, v * 2) end })"
    local out, err = D.run({ "--strict", "-e", "x = 4 print(made, x, pcall(function() return other end))" }, { env = { LUA_INIT = init } })
    assert.is_truthy(out:find("^5\t8\tfalse\t.*undefined global 'other'"), out .. err)
  end)

  it("begins a project by --init, and overwrites nothing", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert.is_truthy(os.execute("mkdir " .. folder))
    local cwd = io.popen("pwd"):read "l"
    local runner = D.runner:sub(1, 1) == "/" and D.runner or cwd .. "/" .. D.runner
    local function run(words)
      local pipe = io.popen("cd " .. folder .. " && '" .. runner .. "' " .. words .. " 2>&1")
      local text = pipe:read "a"
      local _, _, code = pipe:close()
      return text, code
    end
    local function text_of(name)
      local file = assert(io.open(folder .. "/" .. name))
      local text = file:read "a"
      file:close()
      return text
    end
    local text, code = run "--init"
    assert.are.equal(0, code)
    for _, name in ipairs { ".luarc.json", "main.lua", "spec/main_spec.lua" } do
      assert.is_truthy(text:find("wrote  " .. name .. "\n", 1, true), text)
      assert.is_true(#text_of(name) > 50)
    end
    assert.is_truthy(text_of ".luarc.json":find('"runtime.version": "Lua 5.4"', 1, true))
    text, code = run "--strict main.lua --size 16 --steps 20 --picture heat.gif"
    assert.are.equal(0, code, text)
    assert.matches("^after 20 steps: mean 0%.%d+, hottest 0%.%d+\n$", text)
    assert.matches("^GIF89a", text_of "heat.gif")
    text, code = run "--strict spec/main_spec.lua"
    assert.are.equal(0, code, text)
    assert.are.equal(3, select(2, text:gsub("  ok: ", "")), text)
    local file = assert(io.open(folder .. "/main.lua", "w"))
    file:write "-- mine\n"
    file:close()
    text, code = run "--init"
    assert.are.equal(0, code)
    assert.are.equal(3, select(2, text:gsub("kept   ", "")), text)
    assert.are.equal("-- mine\n", text_of "main.lua")
    text, code = run "--init mygame"
    assert.are.equal(2, code)
    assert.is_truthy(text:find("it writes to this folder, got 'mygame'", 1, true), text)
    os.remove(folder .. "/main.lua")
    os.remove(folder .. "/spec/main_spec.lua")
    text = run "--init"
    assert.is_truthy(text:find("wrote  main.lua", 1, true) and text:find("kept   .luarc.json", 1, true), text)
    os.execute("rm -r " .. folder)
  end)

  it("prints the table of functions by --api json", function()
    local out, err, code = D.run { "--api", "json" }
    assert.are.equal(0, code, err)
    -- JSON without escapes of Unicode is Lua but for brackets, colons and null.
    local strings = {}
    local text = out:gsub('\\\\', "\1"):gsub('\\"', "\2"):gsub('"([^"]*)"', function(s)
      strings[#strings + 1] = s:gsub("\\n", "\n"):gsub("\2", '"'):gsub("\1", "\\")
      return "S[" .. #strings .. "]"
    end)
    text = text:gsub("%[(%d+)%]", "<%1>"):gsub("%[", "{"):gsub("%]", "}"):gsub("<(%d+)>", "[%1]"):gsub("(S%[%d+%]): ", "[%1] = ")
    local chunk = assert(load("local S = ... return " .. text, "=api"))
    local api = chunk(strings)
    assert.are.equal(tide._VERSION:match "%d+%.%d+%.%d+", api.tide)
    assert.is_true(#api.names > 900, #api.names)
    local by_name, rows = {}, 0
    for _, entry in ipairs(api.names) do by_name[entry.name] = entry end
    for _, row in ipairs(tide._rows()) do
      local name = row.path .. (row.path:find "^tide" and "." or ":") .. row.name
      if row.name:sub(1, 1) ~= "_" then
        local entry = assert(by_name[name], name)
        assert.is_string(entry.summary, name)
        assert.is_boolean(entry.callable, name)
        rows = rows + 1
      end
    end
    assert.are.equal(rows, #api.names)
    local zeros, save = by_name["tide.zeros"], by_name["tide.save_gif"]
    assert.are.equal("Makes a tensor of zeros.", zeros.summary)
    assert.are.equal("tide.zeros(sizes... [, {dtype=, device=, pin_memory=false, out=}]) -> Tensor", zeros.signature)
    assert.is_true(zeros.params[1].rest and zeros.params[2].option)
    assert.are.equal("FILES", save.needs)
    assert.are.equal("viridis", save.params[6].choices[2])
    local found
    for _, entry in ipairs(api.instead) do
      for _, name in ipairs(entry.names) do found = found or name == "autograd" and entry.hint end
    end
    assert.matches("^tide has no autograd", found)
    _, err, code = D.run { "--api", "xml" }
    assert.are.equal(2, code)
    assert.is_truthy(err:find("--api: expected json, got 'xml'", 1, true), err)
    assert.are.equal(2, (select(3, D.run { "--api" })))
  end)

  it("names simulated GPUs where there is none", function()
    local _, err, code = D.run({ "-e", "tide.ones(1, {device = 'cuda'})" }, { env = { TIDE_SIM_DEVICES = "0", CUDA_VISIBLE_DEVICES = "-1" } })
    assert.are.equal(1, code)
    assert.is_truthy(err:find("tide --sim 2", 1, true) and err:find("TIDE_SIM_DEVICES=2", 1, true), err)
  end)

  it("has the prompt's commands and help in -e", function()
    local out, err, code = D.run { "--sim", "1", "-e", ":devices", "-e", ":mem", "-e", ":time x = 5", "-e", "help 'tide.add' print(x)", "-e", ":help zeros" }
    assert.are.equal(0, code, err)
    for _, what in ipairs { "cuda:0", "MiB in tensors", " s\n", "x + y", "5\n", "tide.zeros(" } do assert.is_truthy(out:find(what, 1, true), out) end
    assert.are.equal(1, (select(3, D.run { "-e", ":nonsense", "-e", "print 'ran'" })))
    assert.are.equal(1, (select(3, D.run { "-e", ":time error 'x'" })))
    out, _, code = D.run { "-e", ":quit", "-e", "print 'ran'" }
    assert.are.equal(0, code)
    assert.are.equal("", out)
    assert.are.equal("nil\n", (D.run({ "-" }, { input = "print(help)" }))) -- a script's globals are its own
  end)

  it("takes more arguments than a Lua stack has room for at first", function()
    local words = {}
    for i = 1, 3000 do words[i] = "w" .. i end
    local out = D.run { write "print(select('#', ...), (select(3000, ...)), #arg)", table.unpack(words) }
    assert.are.equal("3000\tw3000\t3000\n", out)
  end)

  it("runs a script with arg and varargs", function()
    local path = write "print(arg[0] == ..., select('#', ...), arg[1], arg[2], arg[-1] ~= nil, select(2, ...))"
    local out, err = D.run { path, path, "b c" }
    os.remove(path)
    assert.are.equal(("true\t2\t%s\tb c\ttrue\tb c\n"):format(path), out, err)
  end)

  it("skips a shebang line", function()
    local path = write "#!/usr/bin/env tide\nprint 'ran'"
    assert.are.equal("ran\n", (D.run { path }))
    os.remove(path)
  end)

  it("runs the standard input", function()
    assert.are.equal("in\n", (D.run({ "-" }, { input = "print 'in'" })))
    assert.are.equal("in\n", (D.run({}, { input = "print 'in'" })))
    assert.are.equal("x\n", (D.run({ "-", "x" }, { input = "print(arg[1])" })))
    local _, err, code = D.run({ "-" }, { input = "error 'x'" })
    assert.are.equal(1, code)
    assert.is_truthy(err:find("stdin:1", 1, true), err)
  end)

  it("gives exit codes", function()
    local function code(...) return (select(3, D.run { ... })) end
    assert.are.equal(0, code("-e", ""))
    assert.are.equal(1, code("-e", "error 'x'"))
    assert.are.equal(1, code("-e", "x ="))
    assert.are.equal(7, code("-e", "os.exit(7)"))
    assert.are.equal(0, code("-e", "os.exit(true, true)"))
    assert.are.equal(1, code("no_such_script.lua"))
  end)

  it("shows tracebacks of errors, of error objects too", function()
    local _, err = D.run { "-e", "local function f() error 'wrong' end f()" }
    assert.is_truthy(err:find("wrong", 1, true) and err:find("stack traceback", 1, true), err)
    _, err = D.run { "-e", "local function guilty() return tide.zeros(2):view(3) end guilty()" }
    assert.is_truthy(err:find("view", 1, true), err)
    assert.is_truthy(err:find("stack traceback", 1, true), err)
    assert.is_truthy(err:find("guilty", 1, true), err)
    _, err = D.run { "-e", "error(setmetatable({}, {__tostring = function() return 'mine' end}))" }
    assert.is_truthy(err:find("mine", 1, true), err)
    _, err = D.run { "-e", "error(42)" }
    assert.is_truthy(err:find("tide: 42\nstack traceback", 1, true), err)
    _, err = D.run { "-e", "error({})" }
    assert.is_truthy(err:find("table", 1, true), err)
    _, err = D.run { "-e", "error()" }
    assert.is_truthy(#err > 0)
  end)

  it("explains a wrong option, with usage and exit code 2, and runs nothing", function()
    for _, case in ipairs {
      { { "--nonsense" }, "unrecognized option '--nonsense'" }, { { "-Z" }, "unrecognized option '-Z'" }, { { "-ix" }, "'-ix'" },
      { { "-vv" }, "'-vv'" }, { { "-Wx" }, "'-Wx'" }, { { "-E1" }, "'-E1'" }, { { "--x=1" }, "'--x=1'" }, { { "---" }, "'---'" },
      { { "-e" }, "missing argument of '-e'" }, { { "-l" }, "missing argument of '-l'" },
      { { "-e", "-v" }, "missing argument of '-e'" }, { { "-l", "-" }, "missing argument of '-l'" },
      { { "--devic", "cpu" }, "did you mean --device?" }, { { "--devise=cpu" }, "did you mean --device?" }, { { "--smi", "2" }, "did you mean --sim?" },
      { { "--versoin" }, "did you mean --version?" }, { { "-n", "4" }, "did you mean --ranks?" }, { { "--nproc_per_node=4" }, "did you mean --ranks?" },
      { { "--hosts", "a" }, "without --ranks: '--hosts'" }, { { "--ranks", "two" }, "got 'two'" },
      { { "--ranks", "2", "--sim", "1", "--ranks", "2" }, "stand side by side, got '--ranks'" } } do
      for before = 0, 1 do
        local words = table.move(case[1], 1, #case[1], 2 * before + 1, before == 1 and { "-e", "print 'ran'" } or {})
        local out, err, code = D.run(words)
        assert.are.equal(2, code, err)
        assert.are.equal("", out)
        assert.is_truthy(err:find(case[2], 1, true) and err:find "\nusage: [^\n]*\n$", err) -- two lines, so that the first is seen
      end
    end
    for _, words in ipairs { { "--ranks", "2" }, { "--ranks=2", "-" } } do -- standard input reaches one rank
      local out, err, code = D.run(words)
      assert.are.same({ "", 2 }, { out, code })
      assert.is_truthy(err:find("expected a script or -e text behind '--ranks n'", 1, true), err)
    end
    local _, err, code = D.run({ "--ranks", "900000", "-e", "print 'ran'" }, { env = { TIDE_MPIRUN = "false" } })
    local most, cores = err:match "got 900000, expected at most (%d+) on (%d+) cores"
    assert.is_truthy(code == 2 and most, err)
    assert.are.equal(math.max(64, 16 * cores), tonumber(most))
  end)

  it("passes ranks and hosts on to the launcher", function()
    local launcher = write '[ "$1" = --version ] && echo "$FAMILY" || printf "%s " "$@"'
    os.execute("chmod +x " .. launcher)
    local script = { "script.lua", "-x" }
    for _, case in ipairs {
      { { "--ranks", "2" }, "Open MPI", "^%-n 2 %-%-oversubscribe " }, { { "--ranks", "2" }, "HYDRA", "^%-n 2 /" },
      { { "--ranks", "900000", "--hosts", "a,b:2" }, "HYDRA", "^%-n 900000 %-hosts a,b:2 /" },
      { { "--ranks", "3", "--hosts", "a,b:2" }, "Open MPI", "^%-n 3 %-%-oversubscribe .*%-%-host a,b:2 /" },
      { { "--ranks", "900000" }, "HYDRA", "^%-n 900000 /", "SLURM_JOB_ID" } } do
      local args, env = table.move(script, 1, 2, #case[1] + 1, { table.unpack(case[1]) }), { TIDE_MPIRUN = launcher, FAMILY = case[2] }
      if case[4] then env[case[4]] = "1" end
      local out, err, code = D.run(args, { env = env })
      assert.is_true(code == 0 and out:find(case[3]) ~= nil and out:find " script.lua %-x $" ~= nil, out .. err)
    end
    os.remove(launcher)
  end)

  it("reads options as lua does", function()
    local path = write "print('script', arg[0] ~= nil, ...)"
    for _, case in ipairs {
      { { "-e", "print(1)", "--", path, "-x" }, "1\nscript\ttrue\t-x\n" }, { { "-e", "", "-" }, "in\n" }, { { "-" }, "in\n" },
      { { "-v", "-e", "" }, "^tide" }, { { "-v" }, "^tide" }, { { "-e", "print(arg[1], arg[0] ~= nil)" }, "-e\ttrue\n" }, { { "-l", "s=string", "-e", "print(s == string)" }, "true\n" },
      { { "-E", "-e", "print(1)" }, "1\n" }, { { "-e", "print(#arg, arg[-1])", path }, "0\tprint(#arg, arg[-1])\nscript\ttrue\n" },
      { { "-W", "-W", path, "-W", "-e" }, "script\ttrue\t-W\t-e\n" }, { { path, "--", "-" }, "script\ttrue\t--\t-\n" }, { { "--" }, "in\n" },
      { { "-e", "a = 1", "-e", "print(a)", "-ea = 2", "-e", "print(a)" }, "1\n2\n" } } do
      local out, err, code = D.run(case[1], { input = "print 'in'" })
      assert.are.equal(0, code, err)
      if case[2]:sub(1, 1) == "^" then assert.is_truthy(out:find(case[2]), out) else assert.are.equal(case[2], out) end
    end
    os.remove(path)
    assert.are.equal("cannot", (select(2, D.run { "-e", "print 'x'", "/none.lua" }):match "cannot"))
  end)

  it("hands a script the table arg as it is when it starts", function()
    local path = write "print(select('#', ...), ...)"
    for _, case in ipairs {
      { "arg[1] = 100", {}, "1\t100\n" }, { "arg[1] = 100", { "a", "b" }, "2\t100\tb\n" }, { "arg[1], arg[2] = nil, {}", { "a" }, "2\tnil\ttable" },
      { "arg = {true, 2.5}", { "a", "b", "c" }, "2\ttrue\t2.5\n" }, { "table.remove(arg, 1)", { "a", "b" }, "1\tb\n" }, { "arg = {}", { "a" }, "0\n" },
      { "arg = setmetatable({1, 2, 3}, {__len = function() return 2 end})", {}, "2\t1\t2\n" } } do
      for _, script in ipairs { path, "-" } do
        local out, err, code = D.run({ "-e", case[1], script, table.unpack(case[2]) }, { input = "print(select('#', ...), ...)" })
        assert.are.equal(0, code, err)
        assert.are.equal(case[3], out:sub(1, #case[3]), case[1])
      end
      local out = D.run({ path, table.unpack(case[2]) }, { env = { LUA_INIT = case[1] } })
      assert.are.equal(case[3], out:sub(1, #case[3]))
    end
    for _, text in ipairs { "arg = 1", "arg = nil", "arg = 'x'" } do
      local out, err, code = D.run { "-e", text, path }
      assert.are.equal(1, code)
      assert.are.equal("", out)
      assert.is_truthy(err:find("'arg' is not a table", 1, true), err)
    end
    assert.are.equal(1, (select(3, D.run { "-e", "arg = setmetatable({}, {__len = function() return 1 << 40 end})", path })))
    os.remove(path)
  end)

  it("finds modules beside the script", function()
    local folder = os.tmpname()
    os.remove(folder)
    local function put(name, text)
      local file = assert(io.open(folder .. "/" .. name, "w"))
      file:write(text)
      file:close()
    end
    assert(os.execute("mkdir -p " .. folder .. "/one/kit " .. folder .. "/two"))
    put("one/helper.lua", "return 'beside'")
    put("one/kit/init.lua", "return 'kit beside'")
    put("one/main.lua", "print(require 'helper', require 'kit', helper, (pcall(require, 'no_such_module_here')))")
    put("two/helper.lua", "return 'elsewhere'")
    assert(os.execute(("ln -s ../one/main.lua %s/two/link.lua"):format(folder)))
    local runner = D.runner
    if runner:sub(1, 1) ~= "/" then runner = io.popen("pwd"):read() .. "/" .. runner end
    local function run(where, words) return io.popen(("cd %s/%s && %s %s 2>&1"):format(folder, where, runner, words)):read "a" end
    for _, case in ipairs { { ".", "one/main.lua" }, { "one", "main.lua" }, { "one/kit", "../main.lua" }, { ".", folder .. "/one/main.lua" },
      { ".", "two/link.lua" }, { ".", "-- two/link.lua" }, { "one", "../two/link.lua a b" } } do
      local out = run(case[1], case[2])
      assert.is_truthy(out:find "^beside\tkit beside\tnil\tfalse", case[2] .. ": " .. out)
    end
    assert.is_truthy(run(".", "-l helper one/main.lua"):find "^beside\tkit beside\tbeside\tfalse")
    assert.is_truthy(run("two", "../one/main.lua"):find "^elsewhere\tkit beside") -- what Lua itself finds comes first
    put("one/string.lua", "print(require 'string' == string)")
    assert.are.equal("true\n", run("one", "string.lua"))
    assert.is_truthy(run("two", "-e 'print(require [[helper]])'"):find "^elsewhere")
    assert.is_truthy(run("two", "-e 'print(#package.cpath > 0, package.path:find([[one]], 1, true))' - < /dev/null"):find "^true\tnil")
    os.execute("rm -r " .. folder)
  end)

  it("finds modules beside a script in a folder of any name that package.path can say", function()
    local folder = os.tmpname()
    os.remove(folder)
    for name, found in pairs { ["a b"] = true, ["a%1b%"] = true, ["a-b"] = true, ["a!b"] = true, ["a'b"] = true, ["a.b"] = true, ["a[b"] = true,
      ["a?b"] = false, ["?"] = false, ["a;b"] = false, ["a\1b"] = false } do
      local quoted = "'" .. (folder .. "/" .. name):gsub("'", "'\\''") .. "'"
      assert(os.execute("mkdir -p " .. quoted))
      for file, text in pairs { helper = "return 'beside'", main = "print((select(2, pcall(require, 'helper'))))\nio.write(package.path)" } do
        local f = assert(io.open(("%s/%s/%s.lua"):format(folder, name, file), "w"))
        f:write(text)
        f:close()
      end
      local out, err, code = D.run { folder .. "/" .. name .. "/main.lua" }
      assert.are.equal(0, code, err)
      assert.are.equal(found, out:find "^beside\n" ~= nil, name .. ": " .. out)
      assert.are.equal(found, out:find(folder .. "/", 1, true) ~= nil, name .. ": " .. out)
    end
    os.execute("rm -r " .. folder)
  end)

  it("names the functions of modules that there are, where a global is called that is none", function()
    local names = {}
    for name, f in pairs(math) do names[name] = type(f) == "function" and not _G[name] or nil end
    for _, name in ipairs { "arange", "matmul", "concat" } do names[name] = true end
    for name in pairs(names) do
      local in_math, in_tide = math[name] ~= nil, type(select(2, pcall(function() return tide[name] end))) == "function"
      local _, err = D.run { "-e", name .. "(1)" }
      assert.are.equal(in_math, err:find("there is math." .. name, 1, true) ~= nil, err)
      assert.are.equal(in_math and in_tide, err:find(", and tide." .. name .. " of tensors", 1, true) ~= nil, err)
      assert.are.equal(in_tide, err:find("tide." .. name, 1, true) ~= nil, err)
    end
  end)

  it("has a thread for each processor that it may run on", function()
    if not os.execute "taskset -c 0 true 2> /dev/null" then return pending "needs taskset" end
    local pipe = io.popen(("taskset -c 0 %s -e 'print(tide.get_num_threads())'"):format(D.runner))
    assert.are.equal("1\n", pipe:read "a")
    pipe:close()
  end)

  it("answers a wrong option of a program made with tide.cmdline in one line, with exit code 2", function()
    local path = write [[
      local line = tide.cmdline("title"):option("steps", 10, "how many"):option("rate", 0.5):option("name", "x"):flag("quiet")
      local args = line:parse(arg)
      print(args.steps, #args)]]
    for _, case in ipairs { { "--step=30", "unknown option --step, did you mean --steps?" }, { "--stpes", "did you mean --steps?" }, { "--qui", "did you mean --quiet?" },
      { "--nothing=5", "unknown option --nothing" }, { "-n", "unknown option -n, did you mean --name?" }, { "-steps=3", "unknown option -steps, did you mean --steps?" }, { "--steps=x", "--steps: got 'x', expected an integer" }, { "--rate=1e", "--rate: got '1e', expected a number" },
      { "--steps", "--steps expects a value" }, { "--quiet=1", "--quiet takes no value" } } do
      local out, err, code = D.run { path, case[1] }
      assert.are.equal(2, code, err)
      assert.are.equal("", out)
      assert.is_truthy(err:find(case[2], 1, true) and err:find("^" .. path:gsub("%p", "%%%0") .. ": "), err)
      assert.is_nil(err:find("traceback", 1, true), err)
      assert.are.equal(1, select(2, err:gsub("\n", "")))
    end
    assert.are.equal("5\t2\n", (D.run { path, "--steps", "5", "a", "--", "--steps" }))
    assert.are.equal("10\t4\n", (D.run { path, "-3", "-", "-.5", "--", "-n" }))
    assert.are.equal(0, (select(3, D.run { path, "--help" })))
    os.remove(path)
    -- caught, it is an error as any other, and what fails afterwards is no wrong option
    local _, err, code = D.run { "-e", "local ok, e = pcall(function() tide.cmdline 'x':parse { '--y' } end) assert(not ok and e.kind == 'ValueError') error 'later'" }
    assert.are.equal(1, code, err)
    assert.is_truthy(err:find("later", 1, true) and err:find("traceback", 1, true), err)
    _, err, code = D.run { "-e", "xpcall(function() tide.cmdline 'x':parse { '--y' } end, print) tide.cmdline(5)" }
    assert.are.equal(1, code, err)
    assert.is_truthy(err:find("traceback", 1, true), err)
  end)

  it("shows no frames of tide's own chunks", function()
    local where = {
      "tide.parallel.data_parallel(function() error 'deep' end, tide.ones(4), {devices = {0}})",
      "for _ in tide.data.loader({1, 2}, {collate = function() error 'deep' end}) do end",
      "tide.kernel('deep!')",
      "tide.cmdline('x'):option('deep', {})",
      "tide.cuda.make_graphed_callables(function() error 'deep' end, {tide.ones(1, {device = 'cuda'})})",
    }
    for _, text in ipairs(where) do
      for _, form in ipairs { "local function outer() %s end outer()", "local function outer() %s end print(select(2, xpcall(outer, debug.traceback)))",
        "local function outer() %s end print(select(2, pcall(outer)).traceback or 'no outer traceback', 'deep')" } do
        local out, err = D.run({ "-e", form:format(text) }, { env = { TIDE_SIM_DEVICES = "1" } })
        local all = out .. err
        assert.is_truthy(all:find("outer", 1, true) or all:find("command line", 1, true), all)
        assert.is_nil(all:find("[tide ", 1, true), all)
        assert.is_nil(all:find("'fail'", 1, true) or all:find("'throw'", 1, true), all)
      end
    end
  end)

  it("has debug.traceback as Lua has it", function()
    for _, case in ipairs { { "debug.traceback('x')", "x\nstack traceback:\n\t%(command line%):1: in main chunk\n\t%[C%]: in %?\n$" },
      { "debug.traceback('x', 2)", "x\nstack traceback:\n\t%[C%]: in %?\n$" }, { "debug.traceback(nil, 0)", "^stack traceback:\n\t%[C%]: in function 'debug.traceback'" },
      { "debug.traceback({}) ~= nil, debug.traceback(true)", "^true\ttrue\n" }, { "debug.traceback(5)", "^5\nstack traceback:" },
      { "debug.traceback(coroutine.create(print))", "^stack traceback:\n$" }, { "debug.traceback(coroutine.create(print), 'm')", "^m\nstack traceback:\n$" },
      { "pcall(debug.traceback, 'x', {})", "^false\tbad argument #2 to '" } } do
      local out, err = D.run { "-e", "print(" .. case[1] .. ")" }
      assert.is_truthy(out:find(case[2]), case[1] .. ": " .. out .. err)
    end
  end)

  it("warns, unless told not to", function()
    local _, err = D.run { "-e", "warn 'careful'" }
    assert.is_truthy(err:find("careful", 1, true), err)
    _, err = D.run { "-W", "off", "-e", "warn 'careful'" }
    assert.are.equal("", err)
    _, err = D.run { "-W", "off", "-W", "-e", "warn 'careful'", "-W", "off", "-W", "on", "-e", "warn 'again'" }
    assert.is_truthy(err:find("careful", 1, true) and err:find("again", 1, true), err)
  end)

  it("honours LUA_INIT unless -E is given", function()
    assert.are.equal("init\nrun\n", (D.run({ "-e", "print 'run'" }, { env = { LUA_INIT = "print 'init'" } })))
    assert.are.equal("run\n", (D.run({ "-E", "-e", "print 'run'" }, { env = { LUA_INIT = "print 'init'" } })))
  end)

  it("ends with work queued and devices in use", function()
    for _, how in ipairs { "", "os.exit(0)", "os.exit(0, true)", "error 'x'" } do
      local _, err, code = D.run({ "-e", [[
        local x = tide.zeros(1000, { device = "cuda" })
        tide.cuda._sleep(50000000)
        for i = 1, 100 do x:add_(1) end
        s = tide.cuda.Stream()
        e = tide.cuda.Event():record(s)
        ]] .. how }, { env = { TIDE_SIM_DEVICES = "2" } })
      assert.are.equal(how == "error 'x'" and 1 or 0, code, how .. err)
    end
  end)

  -- Runs the script, sends it signals once it says that it is ready, and waits until it ends.
  local function interrupt_once(source, kills)
    local path = write(source)
    local pid = write ""
    local command = ([[
      start=$(date +%%s%%N)
      %s -e ""
      usual=$((($(date +%%s%%N) - start) / 1000000))
      env TIDE_SIM_DEVICES=1 %s %s >%s.out 2>%s.err &
      child=$!
      for i in $(seq 600); do grep -q ready %s.out 2>/dev/null && break; sleep 0.1; done
      sleep 0.1
      start=$(date +%%s%%N)
      %s
      { sleep 60; kill -KILL $child; } 2>/dev/null &
      watchdog=$!
      wait $child
      code=$?
      kill $watchdog 2>/dev/null
      echo "$code $((($(date +%%s%%N) - start) / 1000000)) $usual" >%s]]):format(D.quote(D.runner), D.quote(D.runner),
      path, path, path, path, kills or "kill -INT $child", pid)
    -- Not from a terminal, a background process of sh ignores interruptions: env of a monitor-mode shell does not.
    os.execute("bash -mc " .. D.quote(command) .. " 2>/dev/null")
    local file = assert(io.open(pid))
    local code, ms, usual = file:read "a":match "(%d+) (%d+) (%d+)"
    file:close()
    local function read(name)
      local f = assert(io.open(path .. name))
      local text = f:read "a"
      f:close()
      return text
    end
    local err, out = read ".err", read ".out"
    for _, p in ipairs { path, pid, path .. ".out", path .. ".err" } do os.remove(p) end
    -- How long it took, less twenty times what the machine of the moment takes to begin and end a program.
    return tonumber(code), tonumber(ms) - 20 * tonumber(usual), err, out
  end

  -- The first of ten tries that took less than `most` ms, or the last: a machine that does much else is slow once.
  local function interrupt(source, most, kills)
    local code, ms, err, out
    for _ = 1, 10 do
      code, ms, err, out = interrupt_once(source, kills)
      if ms < most then break end
    end
    assert.is_true(ms < most, source .. ms) -- the shell's own time is in it, too
    return code, err, out
  end

  it("is interrupted in Lua code and in a wait within 100 ms", function()
    -- The thread sanitizer holds signals back until the next system call: a loop without one is never interrupted there.
    local sources = {
      "print 'ready' io.stdout:flush() while true do end",
      "print 'ready' io.stdout:flush() tide.cuda._sleep(1 << 40) tide.cuda.synchronize()",
      "print 'ready' io.stdout:flush() local x = tide.zeros(1, {device = 'cuda'}) tide.cuda._sleep(1 << 40) print(x:item())",
      "print 'ready' io.stdout:flush() coroutine.wrap(function() while true do end end)()",
      "print 'ready' io.stdout:flush() tide.parallel.data_parallel(function() while true do end end, tide.ones(3))",
      "print 'ready' io.stdout:flush() tide.multiprocessing.spawn(function() while true do end end, { nprocs = 2 })",
      "local k = tide.kernel 'function(i, x) while true do x[i] = x[i] + 1 end end' local x = tide.zeros(8) print 'ready' io.stdout:flush() k(8, x)",
      "local k, x = tide.kernel 'function(i, x) while true do x[i] = x[i] + 1 end end', tide.zeros(8, { device = 'cuda' }) k(8, x) " ..
        "print 'ready' io.stdout:flush() x:sum():item()",
    }
    for i = D.tsan and 2 or 1, D.tsan and 3 or #sources do
      local source = sources[i]
      for signal, want in pairs { INT = 1, TERM = 143 } do
        local code, err = interrupt(source, D.tsan and 2500 or 400, "kill -" .. signal .. " $child")
        assert.are.equal(want, code, source .. err)
        assert.is_truthy(err:lower():find "interrupted", err)
      end
    end
  end)

  it("gives a script that SIGTERM has interrupted the time to save, and ends with 143", function()
    local ready = "print 'ready' io.stdout:flush() "
    local works = { "while true do end", "tide.cuda._sleep(1 << 40) tide.cuda.synchronize()",
      "coroutine.wrap(function() while true do end end)()", "while true do tide.ones(500, 500):matmul(tide.ones(500, 500)) end",
      "tide.multiprocessing.spawn(function() while true do end end, { nprocs = 2 })" }
    for i = D.tsan and 2 or 1, D.tsan and 2 or #works do
      -- 2 s: what the queue of a device may hold the end up
      local code, err, out = interrupt(ready .. "local ok, e = pcall(function() " .. works[i] .. " end) print(ok, e.kind, 'saved')", 6000, "kill -TERM $child")
      assert.are.equal(143, code, works[i] .. err)
      assert.are.equal("", err)
      assert.are.equal("ready\nfalse\tInterrupted\tsaved\n", out, works[i])
    end
  end)

  it("closes what a script has open when SIGTERM ends it, and leaves it its exit code", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local ready = "print 'ready' io.stdout:flush() "
    local code, _, out = interrupt(ready .. "local _ <close> = setmetatable({}, {__close = function() print 'closed' io.stdout:flush() end}) while true do end", 1000, "kill -TERM $child")
    assert.are.equal(143, code)
    assert.are.equal("ready\nclosed\n", out)
    -- an error afterwards, and an exit code of the script's own
    code = interrupt(ready .. "pcall(function() while true do end end) error 'later'", 1000, "kill -TERM $child")
    assert.are.equal(143, code)
    code = interrupt(ready .. "pcall(function() while true do end end) os.exit(7)", 1000, "kill -TERM $child")
    assert.are.equal(7, code)
  end)

  it("ends at once by a second SIGTERM, and before the first where no script runs", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local ready = "print 'ready' io.stdout:flush() "
    for _, work in ipairs { "while true do pcall(function() while true do end end) end", "pcall(function() while true do end end) tide.cuda._sleep(1 << 40) tide.cuda.synchronize()",
      "pcall(function() while true do end end) os.execute 'sleep 4'" } do
      local code, err, out = interrupt(ready .. work, 2000, "kill -TERM $child; sleep 0.3; kill -TERM $child")
      assert.are.equal(143, code, work .. err)
      assert.are.equal("ready\n", out)
    end
    local code, _, out = interrupt(ready .. "while true do pcall(function() while true do end end) print 'caught' io.stdout:flush() end", 3500, -- with 2.5 s between the signals
      "kill -TERM $child; sleep 1; kill -INT $child; sleep 1.5; kill -TERM $child")
    assert.are.equal(143, code) -- Ctrl-C stays what it was
    assert.are.equal("ready\ncaught\ncaught\n", out)
  end)

  it("breaks off a read for SIGTERM, and heeds one that its parent ignores no more than that", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local code, err = interrupt("local p = io.popen 'sleep 30' print 'ready' io.stdout:flush() p:read()", 4000, "kill -TERM $child")
    assert.are.equal(143, code, err)
    assert.is_truthy(err:find("interrupted", 1, true), err)
    local path = write "os.execute 'kill -TERM $PPID' for _ = 1, 1e6 do end print 'on'"
    local pipe = io.popen(("trap '' TERM; %s %s"):format(D.quote(D.runner), path))
    assert.are.equal("on\n", pipe:read "a")
    pipe:close()
    os.remove(path)
  end)

  it("runs nothing more after SIGTERM, neither options nor the prompt", function()
    local term = "pcall(function() os.execute 'kill -TERM $PPID' while true do end end) print 'caught'"
    for _, words in ipairs { { "-e", term, "-e", "print 'next'" }, { "-i", "-e", term }, { "-e", term, "-" } } do
      local out, err, code = D.run(words, { input = "print 'next'" })
      assert.are.equal(143, code, err)
      assert.is_truthy(out:find("caught\n", 1, true) and not out:find("next", 1, true), out)
    end
  end)

  it("lets processes of spawn save once, too", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local work = ([[tide.multiprocessing.spawn(function(rank)
      local ok, e = pcall(function() io.open("%s/begun" .. rank, "w"):close() while true do end end)
      local f = io.open("%s/saved" .. rank, "w") f:write(e.kind) f:close()
    end, { nprocs = 2, join = %s })]]):format(folder, folder, "%s")
    local function begun() return "for rank = 0, 1 do while not io.open('" .. folder .. "/begun' .. rank) do end end print 'ready' io.stdout:flush() " end
    local function saved()
      for rank = 0, 1 do
        local file = assert(io.open(folder .. "/saved" .. rank))
        assert.are.equal("Interrupted", file:read "a")
        file:close()
      end
      os.execute("rm -f " .. folder .. "/*")
    end
    -- the parent is asked to end and asks its children; or all are asked, as by a supervisor
    local pids = ("local f = io.open('%s/pids', 'w') f:write(table.concat(c:pids(), ' ')) f:close() "):format(folder)
    for _, kills in ipairs { "kill -TERM $child", "kill -TERM $child $(cat " .. folder .. "/pids)" } do
      local code, err = interrupt_once("local c <close> = " .. work:format("false") .. pids .. begun() .. "c:join()", kills)
      assert.are.equal(143, code, err)
      saved()
    end
    -- one of them is
    local text = [[local c = %s %s os.execute("kill -TERM " .. c:pids()[2]) local ok, e = pcall(c.join, c) print(ok, e.rank, e.exit_code)]]
    local out, err, code = D.run { "-e", text:format(work:format("false"), begun()) }
    assert.are.equal(0, code, err)
    assert.are.equal("ready\nfalse\t1\t143\n", out)
    os.execute("rm -r " .. folder)
  end)

  it("is interrupted within an operation of the CPU, and lives on", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    -- Each takes seconds: in one call, or again and again where many processors may be fast.
    local operations = {
      "local a = tide.ones(3000, 3000, { dtype = tide.int64 }) return function() while true do a:matmul(a) end end",
      "local a = tide.ones(1 << 10, 256, 256) return function() while true do a:matmul(a) end end",
      "local a = tide.rand(1 << 25, { dtype = tide.float64 }) return function() while true do a:lgamma_():digamma_() end end",
      "local a = tide.ones(1):expand(1 << 35) return function() return a:sum() end",
      "local a = tide.ones(1):expand(1 << 18, 1 << 17) return function() return a:max(2) end",
      "local a = tide.ones(8, 1 << 12):expand(8, 1 << 12) return function() while true do tide.fft.fft(a) end end",
      "local n = 1 << 25 return function() while true do tide.fft.rfft(tide.ones(n)) n = n + 2 end end", -- lines whose tables take long
      "return function() while true do tide.randperm(1 << 25) end end",
      "local f = tide.cuda.jiterator.create_jit_fn('template <typename T> T f(T x) { T s = x; for (int i = 0; i < 200; i++) s = sinf(s) + x; return s; }') "
        .. "local a = tide.rand(1 << 24) f(tide.rand(1)) return function() f(a) end",
      "local k = tide.cuda.compile_kernel('__global__ void k(float *x) { float s = x[blockIdx.x]; for (int i = 0; i < 50000; i++) s = s * 0.5f + 1 / (s * s + 1); x[blockIdx.x] = s; }', 'k') "
        .. "local a = tide.rand(1 << 20) k({ grid = 1, block = 1 }, a) return function() k({ grid = 1 << 20, block = 1 }, a) end",
    }
    for _, operation in ipairs(operations) do
      local source = "local run = (function() " .. operation .. " end)() print 'ready' io.stdout:flush() local ok, e = pcall(run) "
        .. "assert(not ok and e.kind == 'Interrupted', e) assert(tide.ones(1000, 1000):sum():item() == 1e6) error(e)"
      local code, err = interrupt(source, 1000) -- on machines that do much else
      assert.are.equal(1, code, operation .. err)
      assert.is_truthy(err:lower():find "interrupted", operation .. err)
    end
  end)
end)
