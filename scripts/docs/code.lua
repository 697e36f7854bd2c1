-- Runs the Lua blocks of the README, of the manual's pages and of the reference's examples, and compares what they print
-- with what the page shows.
--
-- A block ```lua runs as a script of its own, in an empty folder, on the CPU. The block ```text that follows it is its
-- output, standard error included; `...` in it matches any text, and a line `...` any lines. Words behind `lua` change this:
--   sim=2       runs with two simulated GPUs
--   continues   runs behind the blocks of the page before it, up to the last one without this word
--   fails       must end with an error
--   norun       is not run: only compiled
-- usage: tide scripts/docs/code.lua [--update] [--pictures FOLDER] [PAGE.md ...]
--   --update writes the outputs into the pages; --pictures keeps the PNG and GIF files that the blocks write.
local runner = io.popen("realpath '" .. arg[-1] .. "'"):read "l"

local file = dofile((arg[0]:match "^(.*/)" or "") .. "file.lua")
local write = file.write

local function read(path) return assert(file.read(path)) end

local function lines_of(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

-- The blocks of a page: {line=, code=, words=, shown= or nil, from=, to=}; from and to are the lines of the output.
local function blocks_of(lines)
  local blocks, open = {}, nil
  for i, line in ipairs(lines) do
    local fence = line:match "^```(.*)$"
    if open and fence == "" then
      open.close = i
      if open.kind == "lua" then blocks[#blocks + 1] = open end
      local last = blocks[#blocks]
      if open.kind == "text" and last and last.close and not last.shown then
        local between = table.concat(lines, "", last.close + 1, open.line - 1)
        if between:match "^%s*$" then
          last.shown = table.concat(lines, "\n", open.line + 1, i - 1)
          last.from, last.to = open.line + 1, i - 1
        end
      end
      open = nil
    elseif fence and not open then
      open = { line = i, kind = fence:match "^%S*", words = {} }
      for word in fence:gmatch "%S+" do open.words[word:match "^[^=]+"] = word:match "=(.*)" or true end
    end
  end
  for _, block in ipairs(blocks) do block.code = table.concat(lines, "\n", block.line + 1, block.close - 1) end
  return blocks
end

local mark = "\1the block begins here\1"

-- Runs the text and gives its output behind the mark, and its exit code.
local function run(folder, text, words)
  os.execute("rm -rf '" .. folder .. "' && mkdir -p '" .. folder .. "'")
  write(folder .. "/example.lua", text)
  local env = "env -u TIDE_DEVICE -u LUA_INIT -u LUA_INIT_5_4 TIDE_SIM_CLOCK=virtual COLUMNS=100 " ..
    (words.sim and "CUDA_VISIBLE_DEVICES=0,1,2,3 TIDE_SIM_DEVICES=" .. words.sim or "CUDA_VISIBLE_DEVICES= TIDE_SIM_DEVICES=0")
  local pipe = assert(io.popen(("cd '%s' && %s '%s' example.lua 2>&1 </dev/null"):format(folder, env, runner)))
  local output = pipe:read "a"
  local _, _, code = pipe:close()
  local _, from = output:find(mark .. "\n", 1, true)
  return from and output:sub(from + 1) or output, code or 0
end

-- A tab, which print puts between values, is two blanks on a page.
local function trim(text) return (text:gsub("\t", "  "):gsub(" +\n", "\n"):gsub("%s+$", "")) end

local function pattern_of(line) return "^" .. line:gsub("%.%.%.", "\0"):gsub("%p", "%%%0"):gsub("%z", ".-") .. "$" end

local function matches(shown, output, i, j)
  i, j = i or 1, j or 1
  while i <= #shown do
    if shown[i] == "..." then
      for k = j, #output + 1 do
        if matches(shown, output, i + 1, k) then return true end
      end
      return false
    end
    if j > #output or not (output[j] == shown[i] or output[j]:find(pattern_of(shown[i]))) then return false end
    i, j = i + 1, j + 1
  end
  return j == #output + 1
end

local options, pages = {}, {}
do
  local i = 1
  while arg[i] do
    if arg[i] == "--update" then
      options.update = true
    elseif arg[i] == "--pictures" then
      i = i + 1
      options.pictures = assert(arg[i], "--pictures takes a folder")
    else
      pages[#pages + 1] = arg[i]
    end
    i = i + 1
  end
end
if #pages == 0 then
  for path in io.popen("ls README.md; find scripts/docs/manual scripts/docs/examples -name '*.md' | sort"):lines() do pages[#pages + 1] = path end
end

local folder = os.tmpname()
os.remove(folder)
local failures, ran, compared = 0, 0, 0

local function complain(path, line, ...)
  failures = failures + 1
  print(("%s:%d: %s"):format(path, line, table.concat({ ... }, "\n")))
end

local function keep_pictures()
  if not options.pictures then return end
  os.execute(("mkdir -p '%s' && find '%s' -maxdepth 1 \\( -name '*.png' -o -name '*.gif' \\) -exec cp {} '%s' \\;")
    :format(options.pictures, folder, options.pictures))
end

for _, path in ipairs(pages) do
  local lines = lines_of(read(path))
  local blocks, before = blocks_of(lines), ""
  for _, block in ipairs(blocks) do
    if not block.words.continues then before = "" end
    local chunk, e = load(before .. block.code, "=" .. path)
    if not chunk then
      complain(path, block.line, e)
    elseif not block.words.norun then
      local text = before == "" and block.code or before .. ("print %q\n"):format(mark) .. block.code
      local output, code = run(folder, text .. "\n", block.words)
      ran = ran + 1
      keep_pictures()
      block.output = lines_of(trim(output))
      if block.words.fails and code == 0 then
        complain(path, block.line, "should end with an error")
      elseif not block.words.fails and code ~= 0 then
        complain(path, block.line, "exit code " .. code, output)
        block.output = nil
      elseif block.shown then
        compared = compared + 1
        if not options.update and not matches(lines_of(trim(block.shown)), block.output) then
          complain(path, block.line, "prints", output, "and the page shows", block.shown)
        end
      end
      before = before .. block.code .. "\n"
    end
  end
  if options.update then
    for i = #blocks, 1, -1 do
      local block = blocks[i]
      if block.from and block.output and not matches(lines_of(trim(block.shown)), block.output) then
        for _ = block.from, block.to do table.remove(lines, block.from) end
        for k = #block.output, 1, -1 do table.insert(lines, block.from, block.output[k]) end
      end
    end
    write(path, table.concat(lines, "\n") .. "\n")
  end
end
os.execute("rm -rf '" .. folder .. "'")
print(("%d pages, %d blocks run, %d compared, %d failures"):format(#pages, ran, compared, failures))
os.exit(failures == 0 and 0 or 1)
