-- help: what it finds, how it lays text out, and that its examples print what they show.

local tide = require "tide"
local D = require "spec.support.device"

local function has(text, what) assert.is_truthy(text:find(what, 1, true), "no '" .. what .. "' in: " .. text) end
local function lacks(text, what) assert.is_falsy(text:find(what, 1, true), "'" .. what .. "' in: " .. text) end
local function prompt(input) return (D.run({ "-i" }, { input = input })) end

describe("help", function()
  it("has a first screen: help(), help(tide), help and tide alone", function()
    local text = tide.help()
    assert.are.equal(text, tide.help(tide))
    assert.are.equal(text, tide.help "tide")
    for _, what in ipairs { "help 'matmul'", "Make      tensor, zeros", "x:view", "Modules   cuda", "cuda.stream" } do has(text, what) end
    local lines = select(2, prompt "help()\n":gsub("\n", ""))
    assert.is_true(lines > 15 and lines <= 24, lines)
    for _, input in ipairs { "help\n", "tide\n", "help()\n", "help(tide)\n" } do has(prompt(input), "Make      tensor, zeros") end
    lacks(prompt "help = 5\nhelp\n", "Make  ")
    lacks(prompt "{tide}\n", "Make  ")
  end)

  it("shows of its first screen only what there is", function()
    local text = tide.help()
    for row in text:gmatch "\n%u%a+ +([^\n]+)" do
      for name in row:gmatch "[^, ]+" do
        local full = name:gsub("^x:", "Tensor:")
        assert.is_true(tide.has(full), full)
      end
    end
  end)

  it("lays an entry out: signature, a sentence, an example, details as a list", function()
    local text = tide.help "load_csv"
    assert.matches("^tide%.load_csv%([^\n]*%) %-> Tensor, table or nil\nReads a text file[^\n]*%.\n\n  > ", text)
    assert.matches("\n%- The first line is a header[^\n]*\n%- columns = ", text)
    assert.matches("^tide%.scope[^\n]*\nlocal _ <close> = tide%.scope%(%)\nFrees [^\n]*%.\n", tide.help "scope")
    assert.matches("\nk%([^\n]*%)\nCompiles a __global__ function[^\n]*%.\n\n  > .*\n%- options are ", tide.help "cuda.compile_kernel")
    assert.matches("^tide%.zeros[^\n]*\nMakes a tensor of zeros%.\n\n  > print%(tide%.zeros%(2, 3%)%)\n  tensor", tide.help(tide.zeros))
  end)

  it("finds a function of a module within a module by the end of its path", function()
    for _, name in ipairs { "profiler.trace", "nvtx.range" } do
      assert.are.equal(tide.help("tide.cuda." .. name), tide.help(name))
      assert.matches("^tide%.cuda%." .. name, tide.help(name))
    end
  end)

  it("fits a screen for the two that have most to say", function()
    for _, name in ipairs { "kernel", "fuse" } do
      local out = D.run { "-h", name }
      local lines = select(2, out:gsub("\n", ""))
      assert.is_true(lines <= 40, name .. " has " .. lines .. " lines")
    end
  end)

  it("is wrapped at words", function()
    for _, name in ipairs { "kernel", "fuse", "linalg", "load_csv", "read", "autograd" } do
      local out = D.run { "-h", name }
      for line in out:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
      local words = function(text) return (text:gsub("%s+", " "):gsub(" $", "")) end
      assert.are.equal(words(tide.help(name)), words(out:gsub("\n\nManual:.*", "")))
    end
    has(D.run { "-h", "kernel" }, "\n- Each result of fn becomes a tensor of the grid's shape; k(grid, ..., {out=})\n  writes")
  end)

  it("answers for names of torch; the build of the site asks for all of them", function()
    local n, before = 0, ""
    for line in io.lines "scripts/docs/torch_names.txt" do
      local section = line:match "^# (%w+)$"
      if section then before = (section == "nn" or section == "optim") and section .. "." or "" end
      for name in (section and "" or line):gmatch "%S+" do
        n = n + 1
        if n % 40 == 0 then assert.is_truthy(tide.help(before .. name):find "%S", name) end
      end
    end
    assert.is_true(n > 1500)
  end)

  it("ranks whole words first", function()
    local text = tide.help "read"
    lacks(text:match "^[^\n]*\n([^\n]*)", "thread")
    has(text, "See:\n")
    assert.matches("^See:\n  [^\n]+standard deviation", tide.help "standard deviation")
    assert.matches("^See:\n  [^\n]+standard deviation", tide.help "deviation")
    assert.matches("^See:\n  [^\n]+nondeterministic", tide.help "ndeterministi") -- within words, where no word has it
    assert.matches("^See:\n.*\n  tide%.load_csv .*\nAlso: ", tide.help "read")
    local both = tide.help "free memory" -- the word that fits worst counts: "freed" is no whole word
    has(both, "\n  CUDAGraph:reset ")
    lacks(both, "reset_accumulated_memory_stats")
    has(tide.help "moving average", "x:unfold(1, n, 1):mean(2)")
    has(tide.help "torch.nn.LSTM", "torch.nn.LSTM: tide has no networks")
    for _, form in ipairs { " sum ", "sum()", "x:sum(2)", "SUM", "torch.sum", "tide.Tensor.sum" } do assert.are.equal(tide.help "sum", tide.help(form), form) end
    for _, form in ipairs { "", " " } do assert.are.equal(tide.help(), tide.help(form)) end
    has(tide.help "magic eigenvalues", "eig")
    local masks = tide.help "mask"
    assert.is_true(masks:find("masked_fill", 1, true) < #masks / 2, masks)
    local all = tide.help "tensor of"
    has(all, "\nAlso: ")
    for _, word in ipairs { "and", "of", "memory", "list", "table", "them", "which", "current", "bytes" } do
      local text = tide.help(word)
      local shown, more = select(2, text:gsub("\n  %g", "")), text:match ", and (%d+) more$"
      local also = (text:match "\nAlso: ([^\n]*)" or ""):gsub(", and %d+ more$", "")
      if also ~= "" then shown = shown + 1 + select(2, also:gsub(", ", "")) end
      assert.is_true(not more or (shown == 60 and tonumber(more) > 0), word .. ": " .. shown .. ", " .. tostring(more))
    end
    assert.matches(", and %d+ more$", tide.help "and")
    assert.are.equal("ValueError", select(2, pcall(tide.help, "no_such_word_at_all")).kind)
  end)

  it("says what there is instead of what tide has not", function()
    for name, what in pairs { autograd = "tide has no autograd", ["x:backward"] = "tide has no autograd", nn = "x:matmul(w) + b",
      ["nn.Linear"] = "x:matmul(w) + b", ["tide.optim.Adam"] = "w:sub_(", dropout = "rand_like", sparse = "no sparse", video = "ffmpeg",
      ddp = "tide.distributed", layer_norm = "x:var(-1", DataLoader = "tide.data.loader", compile = "tide.fuse(fn)", numpy = "save_npy",
      pandas = "one dtype" } do
      has(tide.help(name), what)
    end
    has(tide.help "csv", "tide.load_csv")
  end)
end)

describe("what there is instead", function()
  it("is said by errors for fields and options, too", function()
    local function says(what, f, ...)
      local ok, e = pcall(f, ...)
      assert.is_false(ok)
      has(tostring(e), what)
    end
    says("unknown option 'requires_grad'", tide.randn, 3, { requires_grad = true })
    says("; tide has no autograd", tide.randn, 3, { requires_grad = true })
    says("tide has no networks", function() return tide.nn end)
    says("tide.nccl: ", function() return tide.nccl end)
    says("tide.data.loader", function() return tide.DataLoader end)
    says("tide has no sparse tensors", function() return tide.ones(2).to_sparse end)
  end)

  it("works as it is written", function()
    local x, w, g = tide.randn(4, 3), tide.randn(3), tide.ones(3)
    local before = w:clone()
    D.eq((before - 0.01):totable(), w:sub_(g, { alpha = 0.01 }), 1e-6)
    local p = 0.5
    local dropped = x * (tide.rand_like(x):ge(p)):to(x.dtype) / (1 - p)
    assert.is_true((dropped:eq(0) + dropped:eq(x * 2)):all():item())
    local normed = (x - x:mean(-1, { keepdim = true })) / (x:var(-1, { keepdim = true, correction = 0 }) + 1e-5):sqrt()
    D.eq({ 0, 0, 0, 0 }, normed:mean(-1), 1e-5)
    local labels = tide.tensor { 1, 3, 2, 1 }
    local log_p = x:log_softmax(2)
    local want = -(log_p[{ 1, 1 }] + log_p[{ 2, 3 }] + log_p[{ 3, 2 }] + log_p[{ 4, 1 }]) / 4
    D.eq(want:item(), (-x:log_softmax(2):gather(2, labels:unsqueeze(2)):mean()):item(), 1e-5)
    D.eq({ 2, 3, 4 }, tide.arange(1, 6):to(tide.float32):unfold(1, 3, 1):mean(2))
    local near, at = tide.cdist(tide.tensor { { 0., 0. }, { 5., 5. } }, tide.tensor { { 4., 5. }, { 0., 1. }, { 9., 9. } }):topk(1, 2, { largest = false })
    D.eq({ { 1 }, { 1 } }, near)
    D.eq({ { 2 }, { 1 } }, at)
    D.eq({ 0, 5, 0 }, tide.zeros(3):index_add_(1, tide.tensor { 2, 2 }, tide.tensor { 2., 3. }))
  end)

  it("is said of a vector given to a kernel, and of print and assert in one", function()
    local function message(f, ...) return tostring(select(2, pcall(f, ...))) end
    local k = tide.kernel "function(i, x, v) return x[i] end"
    local text = message(k, 3, tide.ones(3), tide.vec3(1, 2, 3))
    has(text, "got vec3, expected a tensor, a number or a boolean; pass its components")
    lacks(text, "unknown option")
    for _, name in ipairs { "print", "assert" } do
      local _, err = D.run { "-e", "tide.kernel('function(i, x) " .. name .. "(x[i]) return x[i] end')(3, tide.ones(3))" }
      has(err, "tide.kernel.interpret runs the function in Lua, where " .. name)
    end
  end)

  it("is said of ** as of +=", function()
    for input, what in pairs { ["y = 2 ** 3\n"] = "a power is x ^ 2", ["y ** 2\n"] = "a power is x ^ 2", ["y *= 2\n"] = "x:mul_(2)" } do
      local out, err = D.run({ "-i" }, { input = input })
      has(out .. err, what)
    end
  end)
end)

describe("pages of the manual", function()
  -- A runner in bin, as installed; manual: the folder of its pages, or nil.
  local function installed(manual, run)
    local prefix = os.tmpname()
    os.remove(prefix)
    local source = manual and ("mkdir -p P/share/tide && cp -r '" .. manual .. "' P/share/tide/manual && ") or ""
    local command = ("mkdir -p P/bin && " .. source .. "cp '" .. D.runner .. "' P/bin/tide"):gsub("P/", prefix .. "/")
    assert(os.execute(command))
    local ok, e = pcall(run, prefix)
    os.execute("rm -r '" .. prefix .. "'")
    assert(ok, e)
  end
  local function run_in(prefix, name)
    local pipe = io.popen(("'%s/bin/tide' -h '%s' 2>&1; echo exit $?"):format(prefix, name))
    local out = pipe:read "a"
    pipe:close()
    return out
  end

  it("are shown as text", function()
    local text = prompt "help 'streams'\n"
    has(text, "Streams and events\n==================\n\nA stream is a queue of work on a GPU.")
    has(text, "\n    local s = tide.cuda.Stream()\n")
    has(text, "\n  | tensor([2., 2., 2., 2.], device='cuda:0')\n")
    has(text, "\nyou want to wait for                     call\n---")
    has(text:gsub("%s+", " "), "See how to time a kernel.")
    lacks(text, "```")
    lacks(text, "](")
    for _, name in ipairs { "learn/streams", "Streams and events", "STREAMS" } do
      assert.are.equal((D.run { "-h", "streams" }), (D.run { "-h", name }))
    end
    has(D.run { "-h", "memory" }, "Memory\n======")
    has(D.run { "-h", "memory" }, "The name: help 'tide.cuda.memory'")
    has(D.run { "-h", "kernels" }, "Kernels in Lua\n====")
    has(D.run { "-h", "several gpus" }, "Several GPUs\n====")
  end)

  it("are found by a word of their text, with the section", function()
    has(D.run { "-h", "jupyter" }, "nothing is known of 'jupyter'\n\nManual:\n  help 'start/notebook'  Notebooks")
    has(D.run { "-h", "remove noise" }, "help 'howto/signals'  Signals and numbers: Remove noise")
    lacks(D.run { "-h", "sum" }, "Manual:")
    has(select(2, D.run { "-h", "%s%d" }), "nothing is known of '%s%d'")
  end)

  -- What the runner says of a word in a terminal of that width.
  local function at_width(columns, query)
    local command = ("stty cols %d; %s -h %s"):format(columns, D.quote(D.runner), D.quote(query))
    local pipe = io.popen(("script -qec %s /dev/null </dev/null"):format(D.quote(command)))
    local text = pipe:read "a"
    pipe:close()
    return (text:gsub("\r", ""))
  end

  it("are listed with their sections where the line has room for them", function()
    local line = at_width(100, "remove noise"):match "  help 'howto/signals'[^\n]*: Remove noise"
    assert.is_truthy(at_width(#line, "remove noise"):find(line .. "\n", 1, true))
    assert.is_truthy(at_width(#line - 1, "remove noise"):find(line:gsub(": Remove noise", "") .. "\n", 1, true))
  end)

  it("show a table that is too wide for the terminal as a list", function()
    local text = at_width(40, "from/torch")
    has(text, "\n`x[0]`, `dim=0`\n  tide: `x[1]`, dimension `1`\n  why: Lua counts from 1; places such as\n  `argmax` do, too\n")
  end)

  it("are wrapped, but for their code", function()
    local n, code = 0, {}
    for topic in D.run({ "-h", "manual" }):gmatch "\n  help '([^']+)'" do
      n = n + 1
      code[n] = "help '" .. topic .. "' "
    end
    assert.is_true(n > 35, n)
    for line in D.run({ "-e", table.concat(code) }):gmatch "[^\n]+" do
      local columns = #line:gsub("[\128-\191]", "")
      local is_code = line:find "^    " or line:find "^  | " or line:find "%S  +%S" and columns < 120 -- or long words in columns
      assert.is_truthy(columns <= 80 or is_code or not line:find " ", line)
    end
  end)

  it("do not hide functions", function()
    has(D.run { "-h", "scope" }, "tide.scope(fn, ...) -> results of fn")
    has(D.run { "-h", "tide.random" }, "tide.random -> table")
    lacks(tide.help "streams", "====")
  end)

  it("are offered where nothing is found", function()
    local _, err, code = D.run { "-h", "strems" }
    assert.are.equal(1, code)
    has(err, "Did you mean a page of the manual?\n  help 'learn/streams'  Streams and events")
    has(D.run { "-h", "exit" }, "help 'reference/exit_codes'  Exit codes and files")
    lacks(select(2, D.run { "-h", "xyzzyxyzzy" }), "page of the manual")
  end)

  it("are found beside an installed runner, and missed in words", function()
    installed("scripts/docs/manual", function(prefix)
      has(run_in(prefix, "streams"), "Streams and events\n====")
    end)
    installed(nil, function(prefix)
      local missing = "The pages of the manual are not installed: there is no " .. prefix .. "/share/tide/manual/index.md"
      has(run_in(prefix, "manual"), missing)
      local text = run_in(prefix, "xyzzyxyzzy")
      has(text, missing)
      has(text, "\nexit 1\n")
    end)
  end)
end)

describe("examples of help", function()
  -- The examples of the reference, which docs/code runs: {[heading] = as a session at the prompt}.
  local function read_reference()
    local list = {}
    for path in io.popen("ls scripts/docs/examples/*.md"):lines() do
      local file = assert(io.open(path))
      for entry in file:read "a":gsub("\n## `", "\1"):gmatch "\1([^\1]+)" do
        local heading, code, rest = entry:match "^([^`]+)`\n\n```lua[^\n]*\n(.-)\n```\n(.*)$"
        local output = rest:match "^\n```text\n(.-)\n```\n"
        list[heading] = "> " .. code:gsub("\n", "\n> ") .. (output and "\n" .. output or "")
      end
      file:close()
    end
    return list
  end

  it("are those of the reference, for every name", function()
    local list, count = read_reference(), 0
    for _, row in ipairs(tide._rows()) do
      if row.name:sub(1, 1) ~= "_" then
        local of_tensor = row.path == "Tensor" or row.path == "tide"
        local joint = row.path:find "^tide%." and row.path:sub(6) .. "." or row.path .. ":"
        local heading = of_tensor and row.name or joint .. row.name
        local expected = list[heading] or of_tensor and list[row.name:match "^(.*)_$"] or nil
        assert.are.equal(expected, row.example, heading)
        assert.is_true(expected ~= nil or heading:find "^ffi" ~= nil, heading) -- which LuaJIT alone has
        count = count + 1
      end
    end
    assert.is_true(count > 1000, count)
  end)

  it("stand between the first sentence and the details", function()
    local text = tide.help "arange"
    assert.matches("\nMakes [^\n]*\n\n  > print%(tide%.arange%(1, 6%), tide%.arange%(0, 1, 0%.25%)%)\n  tensor%(%[1, 2, 3, 4, 5%]%)", text)
    assert.are.equal(tide.help "relu_", (tide.help "relu"))
  end)
end)
