-- Writes the reference out of the table of functions, which the runner that runs this script has in it: pages of HTML,
-- one a noun and each with a search over all, stubs for the Lua language server, and the man page of the runner.
-- usage: tide scripts/docs/reference.lua FOLDER [--programs]     also pages of programs, which are run: docs/kernels.lua
local tide = require "tide"
local folder = assert(arg[1], "usage: tide scripts/docs/reference.lua FOLDER")

local function write(name, text)
  local file = assert(io.open(folder .. "/" .. name, "w"))
  assert(file:write(text))
  assert(file:close())
end

-- ---- rows, each once ----

local titles = {
  tide = "Saving and loading", data = "Batches of data", Loader = "Batches of data", parallel = "Several devices",
  multiprocessing = "Processes", Context = "Processes", Event = "Between processes", ["tide.cuda.Event"] = "Between processes",
  cuda = "Between processes", class = "Errors", errors = "Errors", scope = "Scopes", Tensor = "Between processes",
  allocator = "Allocators and pools", apply = "Functions on elements", arena = "Scopes", comm = "Between devices",
  convert = "From and to Lua", cudagraph = "Graphs", debug = "Debugging", determinism = "Determinism", device = "Devices",
  doc = "Help", dtype = "Dtypes", error = "Errors", event = "Events", factory = "Making tensors", fft = "Fourier transforms",
  format = "Printing", generator = "Generators", graph = "Graphs", graphed = "Graphs", index = "Indexes and masks", scatter = "Indexes and masks",
  info = "What devices report", io = "Images", ipc = "Between processes", jit = "Kernels of C text", program = "Kernels written in Lua", kernel = "Kernels of C text",
  matmul = "Matrix products", memory = "Memory", move = "Devices, dtypes and copies", names = "Help", nccl = "NCCL",
  nvtx = "NVTX", ops = "Elementwise operations", profiler = "Profiler", random = "Random numbers", reduce = "Reductions",
  sanitizer = "Sanitizer", shape = "Shapes that copy", storage = "Storages", stream = "Streams", tensor = "Tensors",
  timer = "Timers", util = "Programs and threads", vectors = "Small vectors", words = "Kernels in Lua", program = "Kernels in Lua", values = "Modules, classes and fields", view = "Views",
}

local function page_of(row)
  local noun = row.noun or row.path:match "^tide%.(%w+)$" or row.path
  return titles[noun] or (noun:sub(1, 1):upper() .. noun:sub(2))
end

local function file_of(title) return title:lower():gsub("[^%w]+", "-") .. ".html" end

local rows, seen, pages, order = {}, {}, {}, {}
local all = tide._rows()
for _, row in ipairs(all) do
  row.results = row.results or row.signature:match "%-> (.*)$" or ""
  local key = row.signature .. row.name
  if row.name:sub(1, 1) ~= "_" and not seen[key] then
    seen[key] = true
    rows[#rows + 1] = row
    local title = page_of(row)
    if not pages[title] then
      pages[title] = {}
      order[#order + 1] = title
    end
    table.insert(pages[title], row)
  end
end
table.sort(order)
for _, page in pairs(pages) do table.sort(page, function(a, b) return a.name < b.name end) end

-- ---- HTML ----

local style = [[
:root { --back: #fff; --text: #1c1e21; --soft: #666d78; --line: #e3e6ea; --code: #f5f6f8; --link: #1f5fbf }
@media (prefers-color-scheme: dark) {
  :root { --back: #16181c; --text: #e4e6ea; --soft: #9aa2ae; --line: #2b2f36; --code: #1f2228; --link: #7fb0f5 }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif; display: flex }
nav { width: 15rem; height: 100vh; position: sticky; top: 0; overflow-y: auto; padding: 1.2rem; border-right: 1px solid var(--line); font-size: 14px }
nav a { display: block; padding: .1rem 0 }
nav a.here { font-weight: 600; color: var(--text) }
main { flex: 1; max-width: 54rem; padding: 1.2rem 2rem 4rem; min-width: 0 }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
input { width: 100%; padding: .45rem .6rem; margin-bottom: 1rem; font: inherit; color: inherit; background: var(--code); border: 1px solid var(--line); border-radius: 6px }
#found { list-style: none; padding: 0; margin: 0 0 2rem }
#found li { padding: .2rem 0 }
section { border-top: 1px solid var(--line); padding: 1rem 0 }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px }
pre { padding: .6rem .8rem; overflow-x: auto; margin: 0; white-space: pre-wrap }
p { margin: .6rem 0 0 }
table { border-collapse: collapse; margin-top: .6rem; font-size: 14px }
td { padding: .15rem 1rem .15rem 0; vertical-align: top }
td + td { color: var(--soft) }
@media (max-width: 50rem) { body { display: block } nav { width: auto; height: auto; position: static; border: 0 } nav a { display: inline-block; margin-right: .8rem } main { padding: 1rem } }
]]

local search = [[
const box = document.querySelector("input"), found = document.getElementById("found");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  if (!words.length) return;
  const rank = r => (r[0].toLowerCase() === words[0] ? 0 : r[0].toLowerCase().startsWith(words[0]) ? 1 : 2);
  rows.filter(r => words.every(w => (r[1] + " " + r[2]).toLowerCase().includes(w)))
    .sort((a, b) => rank(a) - rank(b)).slice(0, 40).forEach(r => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = r[3], link.textContent = r[1];
      item.append(link, " " + r[2].split(". ")[0]);
      found.append(item);
    });
});
addEventListener("keydown", e => { if (e.key === "/" && document.activeElement !== box) e.preventDefault(), box.focus(); });
]]

local function escape(text) return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" })) end
local function anchor(row) return (row.path .. "." .. row.name):gsub("[^%w_.]", "-") end

local function param_table(row)
  local out = {}
  for i, p in ipairs(row.params or {}) do
    local receiver = i == 1 and row.signature:find("^" .. p.name .. ":")
    if not receiver and p.type ~= "any" then
      local kind = p.choices and "'" .. table.concat(p.choices, "', '") .. "'" or p.type:gsub("|", " or ")
      local rest = p.option and "option" or p.optional and "may be missing" or ""
      if p.default then rest = rest .. ", default " .. p.default end
      out[#out + 1] = ("<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>"):format(escape(p.name), escape(kind), escape(rest))
    end
  end
  return #out > 0 and "<table>" .. table.concat(out) .. "</table>" or ""
end

local programs = arg[2] == "--programs" and dofile(arg[0]:match "^(.*)reference%.lua$" .. "kernels.lua")(folder, escape) or {}

local function navigation(here)
  local out = {}
  local function link(title)
    out[#out + 1] = ('<a %shref="%s">%s</a>'):format(title == here and 'class="here" ' or "", file_of(title), escape(title))
  end
  for _, title in ipairs(order) do link(title) end
  for _, program in ipairs(programs) do link(program.title) end
  return "<nav><b>tide " .. tide._VERSION:gsub("^tide ", "") .. "</b>" .. table.concat(out, "\n") .. "</nav>"
end

local function page(title, body)
  return table.concat({ '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    "<title>" .. escape(title) .. " - tide</title>", '<link rel="stylesheet" href="style.css">', navigation(title), "<main>",
    '<input type="search" placeholder="Search all functions ( / )" aria-label="Search all functions"><ul id="found"></ul>',
    "<h1>" .. escape(title) .. "</h1>", body, '</main><script src="search.js"></script>', "</html>\n" }, "\n")
end

local function write_html()
  local index = {}
  for _, title in ipairs(order) do
    local body = {}
    for _, row in ipairs(pages[title]) do
      local text = escape(row.text):gsub("\n", "<br>")
      body[#body + 1] = ('<section id="%s"><pre>%s</pre><p>%s</p>%s</section>'):format(anchor(row), escape(row.signature), text, param_table(row))
      local link = file_of(title) .. "#" .. anchor(row)
      index[#index + 1] = ("[%q,%q,%q,%q]"):format(row.name, row.signature, row.text:gsub("\n", " "), link)
    end
    write(file_of(title), page(title, table.concat(body, "\n")))
  end
  for _, program in ipairs(programs) do write(file_of(program.title), page(program.title, program.body)) end
  local list = {}
  for _, title in ipairs(order) do
    list[#list + 1] = ('<section><a href="%s">%s</a><p>%d names</p></section>'):format(file_of(title), escape(title), #pages[title])
  end
  write("index.html", page("Reference", table.concat(list, "\n")))
  write("style.css", style)
  write("search.js", "const rows = [" .. table.concat(index, ",\n") .. "];\n" .. search)
end

-- ---- stubs ----

local result_types = {
  Tensor = "tide.Tensor", boolean = "boolean", integer = "integer", number = "number", string = "string", table = "table", bytes = "integer",
  percent = "integer", ms = "number", text = "string", Stream = "tide.cuda.Stream", Event = "tide.cuda.Event", ev = "tide.cuda.Event",
  Generator = "tide.Generator", Storage = "tide.Storage", device = "tide.device", dtype = "tide.dtype", CUDAGraph = "tide.cuda.CUDAGraph",
  major = "integer", minor = "integer", patch = "integer", free = "integer", total = "integer", Shape = "integer[]",
}
local classes = { x = "tide.Tensor", c = "tide.Tensor", g = "tide.Generator", s = "any", dev = "tide.device" }
local reserved = { ["end"] = "end_", ["repeat"] = "repeat_", ["function"] = "function_" }

local function result_type(text)
  local out = {}
  for part in (text:gsub("%b{}", function(list) return list:find "^{Tensor" and "TENSORS" or "table" end) .. ","):gmatch "%s*(.-)%s*," do
    local word = part:match "^bool Tensor" and "Tensor" or part:match "^%w+" or ""
    if part ~= "" then out[#out + 1] = word == "TENSORS" and "tide.Tensor[]" or result_types[word] or classes[word] or "any" end
  end
  return table.concat(out, ", ")
end

local function stub(row, prefix)
  local out, names, options = {}, {}, {}
  for line in row.text:gmatch "[^\n]+" do out[#out + 1] = "---" .. line end
  for i, p in ipairs(row.params) do
    local receiver = i == 1 and prefix:find ":$" and (row.signature:find("^" .. p.name .. ":") or i == 1)
    local kind = p.choices and '"' .. table.concat(p.choices, '"|"') .. '"' or p.type
    local name = reserved[p.name] or p.name
    if receiver then -- self
    elseif p.option then
      options[#options + 1] = ("%s?: %s"):format(p.name, kind)
    elseif p.rest then
      out[#out + 1], names[#names + 1] = "---@param ... " .. kind, "..."
    else
      out[#out + 1] = ("---@param %s%s %s"):format(name, p.optional and "?" or "", kind)
      names[#names + 1] = name
    end
  end
  local has_rest = names[#names] == "..."
  if #options > 0 and not has_rest then
    out[#out + 1] = "---@param options? {" .. table.concat(options, ", ") .. "}"
    names[#names + 1] = "options"
  end
  if row.open and not has_rest then names[#names + 1] = "..." end
  if row.results ~= "" then out[#out + 1] = "---@return " .. result_type(row.results) end
  out[#out + 1] = ("function %s%s(%s) end\n"):format(prefix, row.name, table.concat(names, ", "))
  return table.concat(out, "\n")
end

local class_names = {
  Generator = "tide.Generator", Stream = "tide.cuda.Stream", Event = "tide.cuda.Event", CUDAGraph = "tide.cuda.CUDAGraph",
  Storage = "tide.Storage", device = "tide.device", dtype = "tide.dtype",
}

-- The classes but tensors: fields and methods, of those that have either.
local function class_stubs(out)
  local names, members = {}, {}
  for _, row in ipairs(all) do
    local path = row.path
    if not path:find "^tide" and path ~= "Tensor" and path ~= "class" then
      if not members[path] then
        members[path] = { fields = {}, methods = {} }
        names[#names + 1] = path
      end
      local own = members[path]
      if row.callable and row.params then
        own.methods[#own.methods + 1] = stub(row, path .. ":")
      elseif not row.callable then
        own.fields[#own.fields + 1] = ("---@field %s %s\n"):format(row.name, result_type(row.results))
      end
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local class, own = class_names[name] or "tide." .. name, members[name]
    out[#out + 1] = ("---@class %s\n%slocal %s = {}\n"):format(class, table.concat(own.fields), name)
    out[#out + 1] = table.concat(own.methods, "\n")
  end
end

local function write_stubs()
  local out = { "---@meta tide", "-- Written by scripts/docs/reference.lua.", "", "---@class tide", "local tide = {}", "" }
  local fields, tables, methods, functions, done = {}, {}, {}, {}, {}
  for _, row in ipairs(all) do
    local public = row.name:sub(1, 1) ~= "_"
    if public and row.path:find "^tide" and row.callable and row.params then
      functions[#functions + 1] = { row, row.path .. "." }
      local path = "tide"
      for name in row.path:gmatch "%.(%w+)" do
        path = path .. "." .. name
        tables[path] = true
      end
    elseif public and row.path == "Tensor" and row.callable and row.params then
      methods[#methods + 1] = { row, "Tensor:" }
    elseif public and row.path == "Tensor" then
      fields[#fields + 1] = ("---@field %s %s"):format(row.name, result_type(row.results))
    end
  end
  local names = {}
  for name in pairs(tables) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do out[#out + 1] = name .. " = {}" end
  out[#out + 1] = "\n---@class tide.Tensor\n" .. table.concat(fields, "\n") .. "\nlocal Tensor = {}\ntide.Tensor = Tensor\n"
  for _, list in ipairs { functions, methods } do
    for _, entry in ipairs(list) do
      local key = entry[2] .. entry[1].name
      if not done[key] then out[#out + 1] = stub(entry[1], entry[2]) end
      done[key] = true
    end
  end
  class_stubs(out)
  out[#out + 1] = "return tide"
  write("tide.lua", table.concat(out, "\n") .. "\n")
end

-- ---- the man page ----

local function roff(text) return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("\n([.'])", "\n\\&%1")) end

local function write_man()
  local runner = arg[-1]
  local pipe = assert(io.popen("'" .. runner .. "' --help"))
  local usage = pipe:read "a"
  pipe:close()
  local out = { ".TH TIDE 1 \"\" \"tide " .. tide._VERSION:gsub("^tide ", "") .. "\"", ".SH NAME", "tide \\- Lua for work on GPUs", ".SH SYNOPSIS",
    ".B tide", "[options] [script [args]]", ".SH DESCRIPTION", "Runs a script of Lua 5.4 with the library tide loaded, or a prompt.",
    ".B tide \\-\\-help", ".I name", "tells what a function, class, field or module is.", ".SH OPTIONS" }
  for line in usage:gmatch "[^\n]+" do
    local option, text = line:match "^  (%-.-)%s%s+(.+)$"
    if not option then option, text = line:match "^  (%-%-%w+ %w+)%s+(.+)$" end
    if option then
      out[#out + 1] = ".TP\n.B " .. roff(option) .. "\n" .. roff(text)
    elseif not line:find "^usage" then
      out[#out + 1] = ".PP\n" .. roff(line)
    end
  end
  out[#out + 1] = ".SH MODULES"
  for _, row in ipairs(rows) do
    if not row.callable and row.path:find "^tide" and row.results == "table" then
      out[#out + 1] = ".TP\n.B " .. roff(row.path .. "." .. row.name) .. "\n" .. roff(row.text)
    end
  end
  out[#out + 1] = ".SH ENVIRONMENT\n.TP\n.B TIDE_SIM_DEVICES\nHow many GPUs to simulate.\n.TP\n.B LUA_PATH, LUA_CPATH, LUA_INIT\nAs Lua's own runner has them.\n"
  write("tide.1", table.concat(out, "\n"))
end

write_html()
write_stubs()
write_man()
print(("%s: %d pages, %d names"):format(folder, #order + 1, #rows))
