-- tide --api json: the table of functions, for editors and what writes pages.

local list_rows = public("tide", "_rows")

local function list(values)
  return #values == 0 and "[]" or "[" .. join(values, ", ") .. "]"
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
  local choices
  if p.choices then
    choices = {}
    for i = 1, #p.choices do choices[i] = json_string(p.choices[i]) end
    choices = list(choices)
  end
  return object("name", json_string(p.name), "type", json_string(p.type), "option", flag(p.option), "optional", flag(p.optional),
    "rest", flag(p.rest), "default", text_of(p.default), "choices", choices)
end

local function row_object(row)
  local params
  if row.params then
    params = {}
    for i = 1, #row.params do params[i] = param_object(row.params[i]) end
    params = list(params)
  end
  local joint = find(row.path, "tide") == 1 and "." or ":"
  return object("name", json_string(row.path .. joint .. row.name), "signature", text_of(row.signature),
    "summary", text_of(row.signature and help_summary(row.signature .. "\n" .. row.text)), "text", text_of(row.text),
    "example", text_of(row.example), "callable", row.callable and "true" or "false", "params", params,
    "results", row.results ~= "" and text_of(row.results) or nil, "needs", text_of(row.needs))
end

-- api_json(version): the whole text.
function api_json(version)
  local rows, names, hints = list_rows(), {}, {}
  for i = 1, #rows do
    if sub(rows[i].name, 1, 1) ~= "_" then names[#names + 1] = row_object(rows[i]) end
  end
  for _, entry in next, insteads() do
    local of = words(entry[1])
    for i = 1, #of do of[i] = json_string(of[i]) end
    hints[#hints + 1] = object("names", list(of), "hint", json_string(entry[2]))
  end
  return '{"tide": ' .. json_string(version) .. ',\n"names": [\n' .. join(names, ",\n") .. '\n],\n"instead": [\n' .. join(hints, ",\n") .. "\n]}\n"
end
