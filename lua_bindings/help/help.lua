-- help(): searches the rows of functions and lays the text out. A row is {path, name, doc}, where doc may be false.
--
-- tide.help returns text whose lines are as long as they are; help_wrapped breaks them at words for a terminal. An entry is
-- its signature, one sentence, the example of the reference, and further sentences as a list.

local M = ...
local examples = use "help/examples"
local rows, has_word, lower, words, tide = use("help/doc.c", "rows", "has_word", "lower", "words", "tide")
local methods, meta_name, row_doc, instead, nearest = use("help/doc.c", "methods", "meta_name", "row_doc", "instead", "nearest")

local function in_module(path) return sub(path, 1, 1) == "t" end
local function full(path, name) return path .. (in_module(path) and "." or ":") .. name end

-- ---- text ----

-- Does the sentence end at this ". "? Not in brackets, behind "e.g" or between "..." and a small letter.
local function ends_sentence(text, at)
  local before = sub(text, 1, at)
  local open, close = #replace(before, "(", "((") - at, #replace(before, ")", "))") - at
  local word = sub(text, at > 3 and at - 3 or 1, at)
  local next_letter = sub(text, at + 2, at + 2)
  if sub(word, #word - 2) == "..." and next_letter == lower(next_letter) then return false end
  return open == close and word ~= "e.g." and word ~= "i.e."
end

-- The sentences of one line, as a list.
local function sentences(line)
  local list, first, at = {}, 1, 1
  while true do
    local dot = find(sub(line, at), ". ")
    if not dot then break end
    at = at + dot
    if ends_sentence(sub(line, first), at - first) then
      list[#list + 1] = sub(line, first, at - 1)
      first, at = at + 1, at + 1
    end
  end
  if first <= #line then list[#list + 1] = sub(line, first) end
  return list
end

local function lines_of(text)
  local list = {}
  while text do
    local at = find(text, "\n")
    list[#list + 1] = at and sub(text, 1, at - 1) or text
    text = at and sub(text, at + 1)
  end
  return list
end

-- The line of the text: behind the signature, and behind further ones, which end in brackets or name results.
local function text_line(lines)
  local i = 2
  while lines[i + 1] and (find(lines[i], ") -> ") or find(lines[i], "local ") == 1 or sub(lines[i], #lines[i]) == ")") do i = i + 1 end
  return i
end

local function first_sentence(doc)
  local lines = lines_of(doc)
  local text = lines[text_line(lines)]
  return text and sentences(text)[1] or ""
end

-- M.summary(doc): its first sentence.
function M.summary(doc) return first_sentence(doc) end

local function indented(text) return "  " .. replace(text, "\n", "\n  ") end

-- M.example(path, name): the example of the reference as a session at the prompt, or nil. tide.f, x:f and x:f_ share one.
function M.example(path, name)
  local of_tensor, list = path == "Tensor" or path == "tide", examples.list
  local heading = of_tensor and name or sub(full(path, name), in_module(path) and 6 or 1)
  local example = list[heading] or of_tensor and sub(name, #name) == "_" and list[sub(name, 1, -2)]
  if not example then return nil end
  local cut = find(example, "\n```\n")
  local code = cut and sub(example, 1, cut - 1) or example
  return "> " .. replace(code, "\n", "\n> ") .. (cut and "\n" .. sub(example, cut + 5) or "")
end

-- Signature, one sentence, example, details.
local function laid_out(path, name, doc)
  local lines = lines_of(doc)
  local example = M.example(path, name)
  local at = text_line(lines)
  local list = sentences(lines[at] or "")
  local out = join({ unpack(lines, 1, at - 1) }, "\n") .. "\n" .. (list[1] or "")
  if example then out = out .. "\n\n" .. indented(example) end
  if list[2] or lines[at + 1] then out = out .. "\n" end
  for i = 2, #list do out = out .. "\n- " .. list[i] end
  for i = at + 1, #lines do out = out .. "\n" .. (sub(lines[i], 1, 1) == " " and "" or "- ") .. lines[i] end
  return out
end

-- Where a broken line goes on: below its text, be it a signature, an item of a list or the right one of two columns.
local function hanging(line, width)
  local column = 1
  while sub(line, column, column) == " " do column = column + 1 end
  if sub(line, column, column + 1) == "- " then return column + 1 end
  local paren, blank, gap = find(line, "("), find(line, " "), find(sub(line, column), "  ")
  if paren and blank and paren < blank and (find(line, ") ->") or sub(line, #line) == ")") then return 4 end
  if not gap then return column - 1 end
  column = column + gap
  while sub(line, column, column) == " " do column = column + 1 end
  return column - 1 < width / 2 and column - 1 or 4
end

local function blanks(n) return pad("", n) end

-- The last blank of text behind place `from` that leaves at most `width` columns before it, else the first one.
local function blank_in(text, from, width)
  for i = width + 1, from, -1 do
    if sub(text, i, i) == " " then return i end
  end
  local at = find(sub(text, from), " ")
  return at and at + from - 1
end

-- The line, broken at blanks to at most `width` columns. A word that is longer stands alone.
local function wrapped_line(line, width)
  if #line <= width then return line end
  local indent, out = hanging(line, width), ""
  local from, shift = indent + 1, ""
  while #shift + #line > width do
    local cut = blank_in(line, from, width - #shift)
    if not cut then break end
    out = out .. shift .. sub(line, 1, cut - 1) .. "\n"
    line, from, shift = sub(line, cut + 1), 1, blanks(indent)
    while sub(line, 1, 1) == " " do line = sub(line, 2) end
  end
  return out .. shift .. line
end

-- M.wrapped(text): for the terminal, and for a page of 80 columns where there is none.
function M.wrapped(text)
  local width = columns()
  width = width > 100 and 100 or width < 20 and 20 or width
  local lines = lines_of(text)
  for i = 1, #lines do lines[i] = wrapped_line(lines[i], width) end
  return join(lines, "\n")
end

-- ---- search ----

-- Does "Tensor:view" or "tide.view" answer to the query "view", "Tensor:view", "x:view", "tide.view", "cuda.stream" or
-- "profiler.trace"?
local function matches(query, path, name)
  local whole = full(path, name)
  if query == name or query == whole or in_module(path) and sub(whole, -#query - 1) == "." .. query then return true end
  local colon, dot = find(query, ":"), find(query, ".")
  local joint = colon and dot and (colon < dot and colon or dot) or colon or dot
  local first = sub(query, 1, 1)
  if in_module(path) or not joint or first >= "A" and first <= "Z" then return false end -- "Tensor:f" is no other class's
  return sub(query, joint + 1) == name and (joint == colon or joint == 2)
end

local function each(visit)
  local list = rows()
  for i = 1, #list do visit(unpack(list[i], 1, 3)) end
end

-- The entries that the query names; nil where it names nothing. tide.f and x:f often share one. What is a module and a
-- class has two, and the class's is the one to show.
local function exact(query)
  local list, seen = {}, {}
  each(function(path, name, doc)
    if not matches(query, path, name) or doc and seen[doc] then return end
    if doc then seen[doc] = true end
    list[#list + 1] = doc and laid_out(path, name, doc) or full(path, name)
  end)
  if list[2] and find(list[1], " -> table\n") and find(list[2], list[1] and sub(list[1], 1, find(list[1], " ") - 1) .. "(") == 1 then
    return join({ unpack(list, 2, #list) }, "\n\n")
  end
  return list[1] and join(list, "\n\n")
end

-- Does the text have the word, or its plural, or the verb with an s?
local function mentions(text, word) return has_word(text, word) or has_word(text, word .. "s") end

-- How well a row answers the word, 1 is best: 1 a word of the name, 2 the first word of the text, 3 a word of the first
-- sentence, 4 the beginning of a word of the name, 5 a word of the text, 6 a part of the name, 7 of the text; nil: not at all.
local function rank(word, name, doc)
  local joined = "_" .. lower(name) .. "_"
  if find(joined, "_" .. word .. "_") then return 1 end
  local text = doc and #word > 2 and lower(doc)
  local is_there = text and mentions(text, word)
  local first = is_there and lower(first_sentence(doc))
  if first and mentions(first, word) then return find(first, word) == 1 and 2 or 3 end
  if find(joined, "_" .. word) then return 4 end
  if is_there then return 5 end
  if find(joined, word) then return 6 end
  return text and #word > 3 and find(text, word) and 7 or nil
end

-- The rank of the phrase, or the worst one of its words; of any of them, the best one.
local function rank_all(query, name, doc, any)
  local found = rank(query, name, doc)
  if found or not find(query, " ") then return found end
  for _, word in next, words(query) do
    local r = rank(word, name, doc)
    if not r and not any then return nil end
    if r and (not found or (any and r < found or not any and r > found)) then found = r end
  end
  return found
end

local shown, most = 8, 60

-- The first sentence, cut where it is long.
local function in_short(doc)
  local line = first_sentence(doc)
  if #line <= 110 then return line end
  local cut = 110
  while sub(line, cut, cut) ~= " " and cut > 60 do cut = cut - 1 end
  return sub(line, 1, cut - 1) .. " ..."
end

-- What mentions the word up to that rank, best first, the first ones with a line each; nil where nothing does. any: of
-- several words one is enough.
local function near(word, last_rank, any)
  local found, seen, query = { {}, {}, {}, {}, {}, {}, {} }, {}, lower(word)
  each(function(path, name, doc)
    if sub(name, 1, 1) == "_" or doc and seen[doc] then return end
    local r = rank_all(query, name, doc, any)
    if not r then return end
    if doc then seen[doc] = true end
    found[r][#found[r] + 1] = { full(path, name), doc }
  end)
  local out, rest, total = "See:", "", 0
  for r = 1, last_rank do
    for i = 1, (r < 7 or total == 0) and #found[r] or 0 do
      local name, doc = unpack(found[r][i], 1, 2)
      total = total + 1
      if total <= shown then
        out = out .. "\n  " .. name .. (#name < 24 and blanks(24 - #name) or "  ") .. (doc and in_short(doc) or "")
      elseif total <= most then
        rest = rest .. (rest == "" and "\nAlso: " or ", ") .. name
      end
    end
  end
  if total == 0 then return nil end
  return out .. rest .. (total > most and ", and " .. total - most .. " more" or "")
end

-- What is in a module or class; "" where the path names none.
local function members(path)
  local out = ""
  each(function(of, name)
    if of ~= path or sub(name, 1, 1) == "_" then return end
    out = out .. (out ~= "" and ", " or in_module(path) and "\nIt has: " or "Methods: ") .. name
  end)
  return out
end

-- ---- the first screen ----

local first_steps = [[
help 'matmul'             what a function does; help(x) the methods of an object
help 'mask'               what mentions a word; help 'tide.fft' lists a module
]]

-- Where the runner has given what reads the pages.
local manual_step = [[
help 'streams'            a page of the manual; help 'manual' lists them
]]

local next_steps = [[

x = tide.randn(3, 4)      a tensor on the CPU; {device = 'cuda'}: on a GPU
x[1], x[{ {1, 2}, 3 }]    indexes start at 1, ranges include their end
(x * 2 + 1):sum(2)        names are torch's; in place they end in _
tide.kernel(fn)           compiles a Lua function that runs once per element]]

local groups = {
  { "Make", "tensor zeros ones full arange linspace eye rand randn randint" },
  { "Shape", "Tensor:view Tensor:reshape Tensor:permute cat stack Tensor:expand Tensor:squeeze" },
  { "Compute", "exp where clamp Tensor:sum Tensor:mean Tensor:max cumsum sort einsum matmul" },
  { "Convert", "Tensor:to Tensor:item Tensor:totable Tensor:clone Tensor:copy_" },
  { "Files", "save load load_csv save_csv load_png save_png save_gif save_npz" },
  { "Look", "plot imshow Timer note help has" },
  { "GPUs", "cuda.device_count cuda.stream cuda.synchronize cuda.graph" },
  { "Kernels", "kernel fuse vec3 atomic" },
}

-- Is there a "zeros", "cuda.stream" or "Tensor:sum"?
local function is_there(name)
  local at = tide()
  if find(name, "Tensor:") then return rawget(methods(), sub(name, 8)) ~= nil end
  local dot = find(name, ".")
  if dot then at, name = rawget(at, sub(name, 1, dot - 1)), sub(name, dot + 1) end
  return type(at) == "table" and rawget(at, name) ~= nil
end

local function overview()
  local out = "tide: tensors and kernels on the CPU and on GPUs.\n\n" .. first_steps .. (has "runner/runner_manual.c" and manual_step or "") .. next_steps .. "\n"
  for i = 1, #groups do
    local line = ""
    for _, name in next, words(groups[i][2]) do
      local method = find(name, "Tensor:")
      if is_there(name) then line = line .. (line == "" and "" or ", ") .. (method and "x:" .. sub(name, 8) or name) end
    end
    if line ~= "" then out = out .. "\n" .. pad(groups[i][1], -10) .. line end
  end
  local modules = ""
  each(function(path, name)
    local is_module = path == "tide" and type(rawget(tide(), name)) == "table" and name ~= "Tensor"
    local meta = is_module and getmeta(rawget(tide(), name))
    if not is_module or meta and rawget(meta, "__call") ~= nil then return end
    modules = modules .. (modules == "" and "" or ", ") .. name
  end)
  return out .. "\n" .. pad("Modules", -10) .. modules
end

-- ---- values ----

-- The full name of a function or class, "tide.cuda.Stream" or "Tensor:add", or nil.
local function name_of(value)
  local is = { [value] = true }
  for _, path in next, { "tide", "tide.cuda", "tide.random", "tide.fft", "tide.errors" } do
    local t = path == "tide" and tide() or rawget(tide(), sub(path, 6))
    for key, v in next, t do
      if is[v] and type(key) == "string" then return path .. "." .. key end
    end
  end
  for key, v in next, methods() do
    if is[v] then return "Tensor:" .. key end
  end
end

-- What tells about objects of classes that no name of the module is.
local made_by = { LuaKernel = "tide.kernel", BoundLuaKernel = "LuaKernel:on", Fused = "tide.fuse", Kernel = "tide.cuda.compile_kernel" }

-- An object: its class, and what its methods are called. The class's name ends its metatable's.
local function of_object(value)
  local class, query = meta_name(value)
  if not class then return nil end
  while find(class, ".") do class = sub(class, find(class, ".") + 1) end
  if class == "dtype" then query = text(value) end -- it is known by its own name
  local docs, names = exact(query or made_by[class] or class), members(class)
  return docs and docs .. "\n" .. names or names ~= "" and names or nil
end

local function of_function(value)
  local doc, out = row_doc(value), nil
  each(function(path, name, its) out = out or its == doc and doc and laid_out(path, name, doc) end)
  return out
end

-- The last name in "tide.nn.Linear" or "x:backward".
local function last_name(query)
  while find(query, ".") or find(query, ":") do query = sub(query, (find(query, ".") or find(query, ":")) + 1) end
  return query
end

-- The entry of " sum ", "sum(x)", "SUM", "torch.sum" or "tide.Tensor.sum".
local function loosely(query)
  local bracket = find(query, "(")
  local list = words(bracket and sub(query, 1, bracket - 1) or query)
  if list[2] or not list[1] then return nil end
  return exact(list[1]) or exact(lower(list[1])) or last_name(list[1]) ~= list[1] and exact(last_name(list[1])) or nil
end

local function of_name(query)
  if not words(query)[1] then return overview() end
  local out = exact(query) or loosely(query)
  if out then return out end
  local hint = instead(last_name(query)) or instead(query) or instead(replace(query, " ", "_"))
  for _, part in next, words(replace(query, ".", " ")) do hint = hint or instead(part) end -- "torch.nn.LSTM"
  local found = near(query, hint and 5 or 7) or not hint and find(query, " ") and near(query, 5, true)
  if hint then return query .. ": " .. hint .. (found and "\n" .. found or "") end
  if found then return found end
  local meant = nearest(last_name(query))
  fail("ValueError", "help: nothing is known of '" .. query .. "'"
    .. (meant and ", did you mean '" .. meant .. "'?" or "; help() tells how to search"))
end

function M.answer(...)
  local value, kind = ..., type(...)
  if count(...) == 0 or value ~= nil and ({ [tide()] = true, tide = true })[value] then return overview() end
  local query = kind == "string" and value
  if kind == "function" or kind == "table" then query = name_of(value) end
  local has = query and members(find(query, "tide") == 1 and query or "tide." .. query) or ""
  if has ~= "" then return (exact(query) or query) .. has end
  local out = kind == "userdata" and of_object(value) or kind == "function" and of_function(value) or query and of_name(query)
  if not out then refuse(value, "name", "the name of a function of tide, the function itself, a class or an object") end
  return out
end
