-- Writes the reference out of the table of functions, which the runner that runs this script has in it: Markdown pages for
-- the manual (FOLDER/reference, by groups.lua), stubs for the Lua language server (FOLDER/stubs), and the man page.
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
local pages, entries, names, examples, places = dofile(here .. "reference_pages.lua")(all, dofile(here .. "groups.lua"), here .. "manual/", here .. "examples/")
local function write_pages()
  os.execute("mkdir -p '" .. folder .. "/reference'")
  for name, text in pairs(pages) do write("reference/" .. name .. ".md", text) end
  local root = here .. "../../"
  local elsewhere, _, hints = dofile(here .. "elsewhere.lua")(root)
  write("reference/elsewhere.md", elsewhere)
  write("reference/torch_names.md", dofile(here .. "torch_names.lua")(root, hints, places))
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
for path, text in pairs(dofile(here .. "stubs.lua")(all)) do
  os.execute("mkdir -p '" .. folder .. "/stubs/tide'")
  write("stubs/" .. path, text)
end
write_man()
print(("%s: %d entries, %d names, %d examples"):format(folder, entries, names, examples))
