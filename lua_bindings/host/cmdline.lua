-- tide.cmdline: options of a script. A parser is a table {title, n descriptions}, the script's own: it is read without
-- metamethods, and as a whole before anything else is done.

local M = ...
local like, leave, near_option = use("host/util.c", "like", "leave", "near_option")

local function options_of(parser)
  if type(parser) ~= "table" or type(rawget(parser, "title")) ~= "string" then
    refuse(parser, "parser", "what tide.cmdline gives")
  end
  local list = {}
  for k = 1, rawlen(parser) do
    local o = rawget(parser, k)
    local name = type(o) == "table" and rawget(o, "name")
    local help = name and rawget(o, "help")
    if type(name) ~= "string" or type(help) ~= "string" then
      fail("ArgumentError", "cmdline: parser[" .. k .. "]: got what is no option, expected it from flag or option")
    end
    list[k] = { name = name, help = help, flag = rawget(o, "flag"), default = rawget(o, "default"), key = replace(name, "-", "_") }
  end
  return list
end

local function add(parser, name, option)
  local k = #options_of(parser) + 1
  if type(name) ~= "string" then refuse(name, "name", "a name without leading dashes") end
  if name == "" or sub(name, 1, 1) == "-" then
    fail("ValueError", "cmdline: name: got '" .. name .. "', expected a name without leading dashes")
  end
  local kind = type(option.default)
  if kind ~= "nil" and kind ~= "number" and kind ~= "string" then
    refuse(option.default, "default", "a number, a string or nothing; parser:flag is for what is on or off")
  end
  option.name, option.help = name, option.help == nil and "" or option.help
  if type(option.help) ~= "string" then refuse(option.help, "help", "a text") end
  parser[k] = option
  return parser
end

function M.new(title)
  if type(title) ~= "string" then refuse(title, "title", "a text") end
  return setmeta({ title = title }, class "tide.cmdline")
end

function M.flag(parser, name, help) return add(parser, name, { flag = true, help = help }) end

function M.option(parser, name, default, help) return add(parser, name, { default = default, help = help }) end

function M.help(parser)
  local out = ""
  local options = options_of(parser)
  for k = 1, #options do
    local o = options[k]
    local default = o.default == nil and "" or text(o.default)
    out = out .. "  " .. pad("--" .. o.name .. (o.flag and "" or " VALUE"), -22) .. " " .. o.help
      .. (default == "" and "" or " (default " .. default .. ")") .. "\n"
  end
  return rawget(parser, "title") .. "\n" .. out .. "  --help                 this text\n"
end

-- What the user of the program has got wrong: the runner shows its message alone and ends with exit code 2.
local function misuse(message) fail("ValueError", "cmdline: " .. message, { usage = true }) end

-- The value of the option that `word` names, and where the next argument is.
local function value_of(o, word, args, i)
  local equals = find(word, "=")
  if o.flag then
    if equals then misuse("--" .. o.name .. " takes no value") end
    return true, i
  end
  local value = rawget(args, i)
  if equals then value = sub(word, equals + 1) else i = i + 1 end
  if value == nil then misuse("--" .. o.name .. " expects a value") end
  if type(o.default) ~= "number" then return value, i end
  local number = like(o.default, value)
  if not number then
    misuse("--" .. o.name .. ": got '" .. text(value) .. "', expected "
      .. (is_integer(o.default) and "an integer" or "a number"))
  end
  return number, i
end

-- Positional arguments are the array part of the result. --help prints the text and exits.
function M.parse(parser, args)
  local options, result, by_name = options_of(parser), {}, {}
  if args == nil then args = {} elseif type(args) ~= "table" then refuse(args, "args", "a table of strings") end
  for k = #options, 1, -1 do -- of two of one name the first counts
    local o = options[k]
    by_name[o.name] = o
    if o.flag then result[o.key] = false else result[o.key] = o.default end
  end
  local i, n, ended = 1, rawlen(args), false
  while i <= n do
    local word = rawget(args, i)
    if type(word) ~= "string" and type(word) ~= "number" then refuse(word, "args", "strings") end
    word, i = text(word), i + 1
    local second = sub(word, 2, 2)
    local is_short = sub(word, 1, 1) == "-" and (second >= "a" and second <= "z" or second >= "A" and second <= "Z") -- not -3, nor -
    if ended or sub(word, 1, 2) ~= "--" and not is_short then
      result[#result + 1] = word
    elseif word == "--" then
      ended = true
    elseif word == "--help" then
      leave(M.help(parser))
      return {} -- the program has an os.exit that returns
    else
      local dashes = is_short and "-" or "--"
      local name = sub(word, rawlen(dashes) + 1, (find(word, "=") or 0) - 1)
      local o, meant = not is_short and by_name[name], nil
      if not o then meant = near_option(name, options) end
      if not o then misuse("unknown option " .. dashes .. name .. (meant and ", did you mean --" .. meant .. "? --help" or "; --help") .. " lists them") end
      result[o.key], i = value_of(o, word, args, i)
    end
  end
  return result
end
