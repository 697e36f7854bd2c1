-- The gallery of the manual: what each example shows, the picture that it draws, and its Lua; of the kernels written in
-- Lua also the CUDA C that they become. The pictures were made once, at the sizes below: gallery/NAME.png. gallery/times.tsv
-- has the seconds of processors that each took, and the seconds on a GPU where they were measured: the name, the arguments,
-- the seconds, and the seconds on the GPU with its name, between tabs.
--
-- Times beside kernels written in CUDA C come from scripts/bench/kernels.tsv: the program's name, what was run, its
-- milliseconds, those of the same in CUDA C, and the device, between tabs.
-- usage: tide scripts/docs/gallery.lua FOLDER          writes the pages; of kernels it runs a small size for their text
--        tide scripts/docs/gallery.lua --make [NAME]   draws the pictures anew, or that one, on the CPU
--        tide scripts/docs/gallery.lua --gpu [NAME]    measures each program, or that one, on the GPU, in a second run
local tide = require "tide"
local folder = assert(arg[1], "usage: tide scripts/docs/gallery.lua FOLDER | --make [NAME] | --gpu [NAME]")
local runner, root = arg[-1], arg[0]:match "^(.*)docs/gallery%.lua$" -- root: scripts/

local programs = {
  { "solar_system", "Fifty years of the solar system", "--years 50 --quiet" },
  { "cloth", "A cloth falls over a ball", "--size 96 --steps 320 --quiet" },
  { "wave", "Waves pass a double slit", "--size 1024 --steps 1400 --quiet" },
  { "boids", "A flock that leaves light behind", "--boids 5000 --steps 240 --quiet" },
  { "fluid", "A dam breaks", "--particles 8000 --steps 1600 --quiet" },
  { "digits", "A network learns to read", "--steps 1500 --hidden 256 --quiet" },
  { "pca", "What faces differ in", "--faces 4000 --side 64 --quiet" },
  { "kernels/life", "Life, as one kernel", "--size 256 --steps 300" },
  { "kernels/wave", "Waves on water, as one kernel", "--size 1024 --steps 700" },
  { "kernels/reaction_diffusion", "A reaction that draws", "--size 512 --steps 8000" },
  { "kernels/path_tracer", "Light through glass and metal", "--width 800 --height 450 --samples 320" },
  { "kernels/sph", "Water in cells", "--particles 8000 --seconds 0.7" },
  { "kernels/boids_grid", "A flock without walls", "--boids 50000 --steps 500" },
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

-- ---- pictures ----

local pictures = root .. "docs/gallery/"
local longest = 960 -- pixels of a picture's longer side

local function slug_of(name) return (name:gsub("/", "_")) end

-- The lines of times.tsv by name.
local function read_times()
  local times = {}
  for name, args, seconds, gpu in (read(pictures .. "times.tsv") or ""):gmatch "([^\t\n]*)\t([^\t]*)\t([^\t\n]*)\t?([^\n]*)\n" do
    times[name] = { args = args, seconds = seconds, gpu = gpu }
  end
  return times
end

-- The picture, made smaller by means of blocks where it is larger than that.
local function shrink(path)
  local x = tide.load_png(path):narrow(3, 1, 3)
  local f = math.ceil(math.max(x:size(1), x:size(2)) / longest)
  local h, w = x:size(1) // f, x:size(2) // f
  local small = x:narrow(1, 1, h * f):narrow(2, 1, w * f):reshape(h, f, w, f, 3):to(tide.float32):mean { 2, 4 }
  tide.save_png(path, (small + 0.5):to(tide.uint8))
end

-- Runs a program, and gives the seconds of the clock and of processors.
local function run(name, args, device, path)
  local seconds = os.tmpname()
  local command = ("TIMEFORMAT=\"%%R %%U %%S\"; time \"%s\" \"%sexamples/%s.lua\" %s --device %s --out \"%s\" >/dev/null"):format(runner, root, name, args, device, path)
  assert(os.execute(("bash -c '{ %s; } 2>%s'"):format(command, seconds)), name)
  local real, user, system = read(seconds):match "([%d.]+) ([%d.]+) ([%d.]+)%s*$"
  os.remove(seconds)
  return real, user + system
end

local function make(name, args, before)
  local path = pictures .. slug_of(name) .. ".png"
  local _, used = run(name, args, "cpu", path)
  shrink(path)
  return { args = args, seconds = ("%.1f"):format(used), gpu = before and before.gpu or "" }
end

-- The first run fills the caches of kernels.
local function measure(name, args, before)
  local path = os.tmpname()
  run(name, args, "cuda", path)
  local real = run(name, args, "cuda", path)
  os.remove(path)
  before.gpu = ("%.1f on an %s"):format(real, tide.cuda.get_device_name():gsub("^NVIDIA ", ""))
  return before
end

local function each_program(change, only)
  local times, lines = read_times(), {}
  for _, program in ipairs(programs) do
    local name, _, args = table.unpack(program)
    if not only or name == only then times[name] = change(name, args, times[name]) end
    lines[#lines + 1] = ("%s\t%s\t%s\t%s"):format(name, times[name].args, times[name].seconds, times[name].gpu):gsub("\t$", "") .. "\n"
  end
  write(pictures .. "times.tsv", table.concat(lines))
end

if folder == "--make" then return each_program(make, arg[2]) end
if folder == "--gpu" then return each_program(measure, arg[2]) end

-- ---- pages ----

-- The kernels of a program, from a run of the size of its `-- ci:` line.
local function kernels_of(path, text)
  local args, picture = { [0] = path }, os.tmpname()
  for word in text:match "%-%- ci: ([^\n]*)":gsub("%S+$", ""):gmatch "%S+" do args[#args + 1] = word end
  args[#args + 1] = picture
  local made = run_noting(path, args)
  os.remove(picture)
  return made
end

os.execute(("mkdir -p '%s/gallery' '%s/pictures'"):format(folder, folder))
local times = read_times()
local index = { "# Gallery\n\nEach picture was drawn by its program on a CPU. Click one for the program.\n" }
local toc = {}
for _, program in ipairs(programs) do
  local name, title, args = table.unpack(program)
  local path, slug, time = root .. "examples/" .. name .. ".lua", slug_of(name), times[name]
  local text = assert(read(path))
  assert(time and time.args == args, "gallery: the picture of " .. name .. " has other arguments: tide scripts/docs/gallery.lua --make " .. name)
  write(folder .. "/pictures/gallery_" .. slug .. ".png", assert(read(pictures .. slug .. ".png")))
  local page = { "# " .. title .. "\n", introduction(text) .. "\n", ("![what %s draws](../pictures/gallery_%s.png)\n"):format(name, slug) }
  local gpu = time.gpu ~= "" and ", or " .. time.gpu .. " from start to end" or ""
  page[#page + 1] = ("Drawn by this command, in %s seconds of one core of an AMD EPYC%s:\n\n```sh\ntide scripts/examples/%s.lua %s\n```\n")
    :format(time.seconds, gpu, name, args)
  page[#page + 1] = times_of(name:match "[^/]+$") or nil
  page[#page + 1] = "## The program\n\n```lua\n" .. text .. "```\n"
  for i, k in ipairs(name:find "^kernels/" and kernels_of(path, text) or {}) do
    if i == 1 then page[#page + 1] = "## The CUDA C of its kernels\n" end
    page[#page + 1] = ("The kernel of line %d:\n\n```cuda\n%s\n```\n"):format(k.line, own_text(k.kernel))
  end
  write(folder .. "/gallery/" .. slug .. ".md", table.concat(page, "\n"))
  index[#index + 1] = ("## [%s](%s.md)\n\n[![what %s draws](../pictures/gallery_%s.png)](%s.md)\n\n%s seconds of one core%s.\n"):format(title, slug, name, slug, slug, time.seconds, gpu)
  toc[#toc + 1] = slug
end
index[#index + 1] = "```{toctree}\n:hidden:\n\n" .. table.concat(toc, "\n") .. "\n```\n"
write(folder .. "/gallery/index.md", table.concat(index, "\n"))
