-- Writes the reference out of the table of functions, which the runner that runs this script has in it: Markdown pages for
-- the manual (FOLDER/reference, by groups.lua), stubs for the Lua language server, and the man page of the runner.
-- usage: tide scripts/docs/reference.lua FOLDER
local tide = require "tide"
local folder = assert(arg[1], "usage: tide scripts/docs/reference.lua FOLDER")
local here = arg[0]:match "^(.*/)" or ""

local function write(name, text)
  local file = assert(io.open(folder .. "/" .. name, "w"))
  assert(file:write(text))
  assert(file:close())
end

-- ---- pages ----

local all = tide._rows()
for _, row in ipairs(all) do row.results = row.results or row.signature:match "%-> (.*)$" or "" end
local pages, entries, names, examples = dofile(here .. "reference_pages.lua")(all, dofile(here .. "groups.lua"), here .. "manual/", here .. "examples/")
local function write_pages()
  os.execute("mkdir -p '" .. folder .. "/reference'")
  for name, text in pairs(pages) do write("reference/" .. name .. ".md", text) end
  write("reference/elsewhere.md", (dofile(here .. "elsewhere.lua")(here .. "../../")))
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
  for _, row in ipairs(all) do
    if not row.callable and row.path:find "^tide" and row.results == "table" then
      out[#out + 1] = ".TP\n.B " .. roff(row.path .. "." .. row.name) .. "\n" .. roff(row.text)
    end
  end
  out[#out + 1] = ".SH ENVIRONMENT"
  for line in io.lines(here .. "manual/reference/environment.md") do
    local name, text = line:match "^| (`.-) | (.-) |$"
    if name then out[#out + 1] = ".TP\n.B " .. roff((name:gsub("`", ""))) .. "\n" .. roff((text:gsub("`", ""))) end
  end
  out[#out + 1] = ""
  write("tide.1", table.concat(out, "\n"))
end

write_pages()
write_stubs()
write_man()
print(("%s: %d entries, %d names, %d examples"):format(folder, entries, names, examples))
