-- The gallery of the manual: what each example shows, the picture that it draws, and its Lua; of the kernels written in
-- Lua also the CUDA C that they become. The examples are run here, on the cpu: small ones, as their `-- ci:` lines say,
-- with --quick, else of the sizes below.
--
-- Times beside kernels written in CUDA C come from scripts/bench/kernels.tsv: the program's name, what was run, its
-- milliseconds, those of the same in CUDA C, and the device, between tabs.
-- usage: tide scripts/docs/gallery.lua FOLDER [--quick]
local tide = require "tide"
local folder, quick = assert(arg[1], "usage: tide scripts/docs/gallery.lua FOLDER [--quick]"), arg[2] == "--quick"
local runner, root = arg[-1], arg[0]:match "^(.*)docs/gallery%.lua$" -- root: scripts/

local programs = {
  { "solar_system", "Fifty years of the solar system", "--years 50 --quiet --device cpu --out" },
  { "cloth", "A cloth falls over a ball", "--size 80 --steps 300 --width 900 --quiet --device cpu --out" },
  { "wave", "Waves pass a double slit", "--size 400 --steps 520 --quiet --device cpu --out" },
  { "boids", "A flock that leaves light behind", "--boids 3000 --steps 260 --width 900 --quiet --device cpu --out" },
  { "fluid", "A dam breaks", "--particles 2000 --steps 900 --width 900 --quiet --device cpu --out" },
  { "digits", "A network learns to read", "--steps 300 --hidden 128 --quiet --device cpu --out" },
  { "pca", "What faces differ in", "--faces 1000 --side 48 --quiet --device cpu --out" },
  { "kernels/life", "Life, as one kernel", "--size 256 --steps 300 --device cpu --out" },
  { "kernels/wave", "Waves on water, as one kernel", "--size 512 --steps 700 --device cpu --out" },
  { "kernels/reaction_diffusion", "A reaction that draws", "--size 192 --steps 3000 --device cpu --out" },
  { "kernels/path_tracer", "Light through glass and metal", "--width 480 --height 270 --samples 32 --device cpu --out" },
  { "kernels/sph", "Water in cells", "--particles 2000 --seconds 0.3 --device cpu --out" },
  { "kernels/boids_grid", "A flock without walls", "--boids 3000 --steps 150 --device cpu --out" },
}

local file = dofile(root .. "docs/file.lua")
local read, write = file.read, file.write

-- The head comment without its first lines (ci: and an empty one), up to the usage, as paragraphs.
local function introduction(text)
  local lines = {}
  for line in text:gmatch "([^\n]*)\n" do
    if not line:find "^%-%-" or line:find "^%-%-   tide " then break end
    if not line:find "^%-%- ci:" then lines[#lines + 1] = line:sub(4) end
  end
  return (table.concat(lines, "\n"):match "^%s*(.-)%s*$":gsub("[*_<>%[%]]", "\\%0"))
end

-- Runs a program in this process and gives the kernels that it has made, each with its line.
local function run_noting(path, args)
  local made, kernel = {}, tide.kernel
  local before_arg, before_print = arg, print
  rawset(tide, "kernel", setmetatable({}, { __index = kernel, __call = function(_, ...)
    local k = kernel(...)
    made[#made + 1] = { kernel = k, line = debug.getinfo(2, "l").currentline }
    return k
  end }))
  arg, print = args, function() end
  local ok, e = pcall(dofile, path)
  arg, print = before_arg, before_print
  rawset(tide, "kernel", kernel)
  assert(ok, e)
  return made
end

-- The kernel's own part of its text: without what stands before every kernel.
local function own_text(k)
  local text = k:source "cuda"
  local from = text:find 'extern "C" __global__' or 1
  local out, depth = {}, 0
  for line in text:sub(from):gsub("\n#line[^\n]*", ""):gmatch "[^\n]+" do
    local _, opened = line:gsub("{", "")
    local _, closed = line:gsub("}", "")
    out[#out + 1] = ("  "):rep(line:find "^}" and depth - 1 or depth) .. line
    depth = depth + opened - closed
  end
  return table.concat(out, "\n")
end

local function times_of(name)
  local out = {}
  for line in (read(root .. "bench/kernels.tsv") or ""):gmatch "[^\n]+" do
    local program, what, ours, theirs, device = line:match "^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$"
    if program == name then out[#out + 1] = ("| %s | %s | %s | %s |"):format(what, ours, theirs, device) end
  end
  return #out > 0 and "| what | ms | the same in CUDA C, ms | device |\n| --- | --- | --- | --- |\n" .. table.concat(out, "\n") .. "\n" or nil
end

os.execute(("mkdir -p '%s/gallery' '%s/pictures'"):format(folder, folder))
local index, toc = { "# Gallery\n\nEach picture is drawn by its program while this manual is built, on a CPU.\n" }, {}
for _, program in ipairs(programs) do
  local name, title, words = table.unpack(program)
  local path, slug = root .. "examples/" .. name .. ".lua", (name:gsub("/", "_"))
  local text = assert(read(path))
  if quick then words = text:match "%-%- ci: ([^\n]*)":gsub("%S+$", "") end
  local picture = folder .. "/pictures/gallery_" .. slug .. ".png"
  local page = { "# " .. title .. "\n", introduction(text) .. "\n", ("![what %s draws](../pictures/gallery_%s.png)\n"):format(name, slug) }
  local made, start = {}, os.time()
  if name:find "^kernels/" then
    local args = { [0] = path }
    for word in words:gmatch "%S+" do args[#args + 1] = word end
    args[#args + 1] = picture
    made = run_noting(path, args)
  else
    local pipe = assert(io.popen(("'%s' '%s' %s '%s' 2>&1"):format(runner, path, words, picture)))
    local output = pipe:read "a"
    assert(pipe:close(), output)
  end
  io.stderr:write(("gallery: %s, %d s\n"):format(name, os.time() - start))
  page[#page + 1] = ("Run it:\n\n```sh\ntide scripts/examples/%s.lua\n```\n"):format(name)
  page[#page + 1] = times_of(name:match "[^/]+$") or nil
  page[#page + 1] = "## The program\n\n```lua\n" .. text .. "```\n"
  for i, k in ipairs(made) do
    if i == 1 then page[#page + 1] = "## The CUDA C of its kernels\n" end
    page[#page + 1] = ("The kernel of line %d:\n\n```cuda\n%s\n```\n"):format(k.line, own_text(k.kernel))
  end
  write(folder .. "/gallery/" .. slug .. ".md", table.concat(page, "\n"))
  index[#index + 1] = ("## [%s](%s.md)\n\n[![what %s draws](../pictures/gallery_%s.png)](%s.md)\n"):format(title, slug, name, slug, slug)
  toc[#toc + 1] = slug
end
index[#index + 1] = "```{toctree}\n:hidden:\n\n" .. table.concat(toc, "\n") .. "\n```\n"
write(folder .. "/gallery/index.md", table.concat(index, "\n"))
