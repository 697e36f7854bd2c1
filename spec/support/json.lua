-- Reads JSON: objects and arrays become tables, null becomes nil. Enough to check what we write; raises on anything that
-- is not JSON.

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function fail(at, what) error(("json: %s at byte %d"):format(what, at), 0) end

local value

local function skip(text, at) return text:match("^[ \n\r\t]*()", at) end

local function string_at(text, at)
  local parts = {}
  at = at + 1
  while true do
    local plain, stop = text:match('^([^"\\\0-\31]*)()', at)
    parts[#parts + 1] = plain
    local c = text:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c ~= "\\" then fail(stop, "a string does not end") end
    local hex = text:match("^u(%x%x%x%x)", stop + 1)
    local plain_escape = escapes[text:sub(stop + 1, stop + 1)]
    if not hex and not plain_escape then fail(stop, "a wrong escape") end
    parts[#parts + 1] = hex and utf8.char(tonumber(hex, 16)) or plain_escape
    at = stop + (hex and 6 or 2)
  end
end

-- The items up to `close`, each read by item(at), which returns where it ends.
local function items(text, at, close, item)
  at = skip(text, at + 1)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(text, item(at))
    local c = text:sub(at, at)
    if c == close then return at + 1 end
    if c ~= "," then fail(at, "expected a comma or " .. close) end
    at = skip(text, at + 1)
  end
end

local function array_at(text, at)
  local out = {}
  local stop = items(text, at, "]", function(from)
    local v, to = value(text, from)
    out[#out + 1] = v
    return to
  end)
  return out, stop
end

local function object_at(text, at)
  local out = {}
  local stop = items(text, at, "}", function(from)
    if text:sub(from, from) ~= '"' then fail(from, "expected a name") end
    local name, colon = string_at(text, from)
    colon = skip(text, colon)
    if text:sub(colon, colon) ~= ":" then fail(colon, "expected a colon") end
    local v, to = value(text, colon + 1)
    out[name] = v
    return to
  end)
  return out, stop
end

local words = { ["true"] = true, ["false"] = false }

function value(text, at)
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == "{" then return object_at(text, at) end
  if c == "[" then return array_at(text, at) end
  if c == '"' then return string_at(text, at) end
  local word = text:match("^%a+", at)
  if word == "null" then return nil, at + 4 end
  if word and words[word] ~= nil then return words[word], at + #word end
  local number = text:match("^-?%d+%.?%d*[eE]?[-+]?%d*", at)
  if not number then fail(at, "no value") end
  return math.tointeger(number) or tonumber(number), at + #number
end

return {
  decode = function(text)
    local v, at = value(text, 1)
    if skip(text, at) ~= #text + 1 then fail(at, "something stands behind the value") end
    return v
  end,
}
