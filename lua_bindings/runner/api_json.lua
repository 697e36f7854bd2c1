-- tide --api json: the table of functions, for editors and what writes pages.

local M = ...
local help = use "help/help"
local json_string, insteads = use("runner/runner_setup.c", "json_string", "insteads")
local words = use("help/doc.c", "words")
local list_rows = public("tide", "_rows")

-- A list of what write makes of each value; nil: there is none.
local function list(values, write)
  if not values then return end
  local out = {}
  for i = 1, #values do out[i] = write(values[i]) end
  return "[" .. join(out, ", ") .. "]"
end

-- An object of pairs of a key and JSON text; nil texts are left out.
local function object(...)
  local out = {}
  for i = 1, count(...), 2 do
    local key, value = (unpack({ ... }, i, i)), (unpack({ ... }, i + 1, i + 1))
    if value ~= nil then out[#out + 1] = json_string(key) .. ": " .. value end
  end
  return "{" .. join(out, ", ") .. "}"
end

local function text_of(value)
  if value then return json_string(value) end
end

local function flag(value)
  if value then return "true" end
end

local function param_object(p)
  return object("name", json_string(p.name), "type", json_string(p.type), "option", flag(p.option), "optional", flag(p.optional),
    "rest", flag(p.rest), "default", text_of(p.default), "choices", list(p.choices, json_string))
end

local function row_object(row)
  local joint = find(row.path, "tide") == 1 and "." or ":"
  return object("name", json_string(row.path .. joint .. row.name), "signature", text_of(row.signature),
    "summary", text_of(row.signature and help.summary(row.signature .. "\n" .. row.text)), "text", text_of(row.text),
    "example", text_of(row.example), "callable", row.callable and "true" or "false", "params", list(row.params, param_object),
    "results", row.results ~= "" and text_of(row.results) or nil, "needs", text_of(row.needs))
end

-- M.write(version): the whole text.
function M.write(version)
  local rows, names, hints = list_rows(), {}, {}
  for i = 1, #rows do
    if sub(rows[i].name, 1, 1) ~= "_" then names[#names + 1] = row_object(rows[i]) end
  end
  for _, entry in next, insteads() do
    hints[#hints + 1] = object("names", list(words(entry[1]), json_string), "hint", json_string(entry[2]))
  end
  return '{"tide": ' .. json_string(version) .. ',\n"names": [\n' .. join(names, ",\n") .. '\n],\n"instead": [\n' .. join(hints, ",\n") .. "\n]}\n"
end
