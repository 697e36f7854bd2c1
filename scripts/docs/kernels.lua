-- The manual's pages of scripts/examples/kernels: what each shows, its picture, its Lua, and the CUDA C that its kernels
-- become. Each program is run here as its `-- ci:` line says, on the cpu, with tide.kernel noting the kernels it makes.
--
-- Times beside kernels written in CUDA C stand in scripts/bench/kernels.tsv, where they have been measured: the program's
-- name, what was run, milliseconds of it, milliseconds of the same in CUDA C, and the device, between tabs.
local tide = require "tide"
local root = arg[0]:match "^(.*)docs/reference%.lua$" -- scripts/
local room = root .. "examples/kernels/"
local names = { "life", "wave", "reaction_diffusion", "sph", "boids_grid", "path_tracer" }

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

-- The head comment without its first lines (ci: and an empty one), as paragraphs.
local function introduction(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n" do
    if not line:find "^%-%-" then break end
    if not line:find "^%-%- ci:" then lines[#lines + 1] = line:sub(4) end
  end
  return table.concat(lines, "\n"):match "^%s*(.-)%s*$"
end

-- Runs the program with its picture in the folder; gives the kernels that it has made, each with the line it was made at.
local function run(name, text, folder)
  local picture, made, kernel = "kernel-" .. name .. ".png", {}, tide.kernel
  local args = { [0] = room .. name .. ".lua" }
  for word in text:match("%-%- ci: ([^\n]*)"):gmatch "%S+" do args[#args + 1] = word end
  args[#args] = folder .. "/" .. picture
  local before_arg, before_print = arg, print
  rawset(tide, "kernel", setmetatable({}, { __index = kernel, __call = function(_, ...)
    local k = kernel(...)
    made[#made + 1] = { kernel = k, line = debug.getinfo(2, "l").currentline }
    return k
  end }))
  arg, print = args, function() end
  local ok, e = pcall(dofile, args[0])
  arg, print = before_arg, before_print
  rawset(tide, "kernel", kernel)
  assert(ok, e)
  return picture, made
end

-- What is the kernel's own of its text: the kernel itself, behind what stands before every one.
local function own_text(k)
  local text = k:source "cuda"
  local at = text:find 'extern "C" __global__' or 1
  local out, depth = {}, 0
  for line in text:sub(at):gsub("\n#line[^\n]*", ""):gmatch "[^\n]+" do
    local _, opened = line:gsub("{", "")
    local _, closed = line:gsub("}", "")
    out[#out + 1] = ("  "):rep(line:find "^}" and depth - 1 or depth) .. line
    depth = depth + opened - closed
  end
  return table.concat(out, "\n")
end

local function times_of(name, escape)
  local out = {}
  for line in (read(root .. "bench/kernels.tsv") or ""):gmatch "[^\n]+" do
    local program, what, ours, theirs, device = line:match "^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$"
    if program == name then
      out[#out + 1] = ("<tr><td>%s</td><td>%s ms; the same in CUDA C %s ms, on %s</td></tr>"):format(escape(what), ours, theirs, escape(device))
    end
  end
  return #out > 0 and "<h2>Time</h2><table>" .. table.concat(out) .. "</table>" or ""
end

-- pages(folder, escape): {title=, body=} for each program, its picture written to the folder.
return function(folder, escape)
  local pages = {}
  for _, name in ipairs(names) do
    local text = assert(read(room .. name .. ".lua"))
    local picture, made = run(name, text, folder)
    local body = { ("<p>%s</p>"):format((escape(introduction(text)):gsub("\n\n", "</p><p>"))) }
    body[#body + 1] = ('<p><img src="%s" alt="What %s draws" style="max-width: 100%%"></p>'):format(picture, name)
    body[#body + 1] = times_of(name, escape)
    body[#body + 1] = "<h2>The program</h2><pre>" .. escape(text) .. "</pre><h2>The CUDA C of its kernels</h2>"
    for _, k in ipairs(made) do
      body[#body + 1] = ("<p>Of line %d:</p><pre>%s</pre>"):format(k.line, escape(own_text(k.kernel)))
    end
    pages[#pages + 1] = { title = "Kernels in Lua: " .. name:gsub("_", " "), body = table.concat(body, "\n") }
  end
  return pages
end
