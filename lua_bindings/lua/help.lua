-- help(): it searches the rows of functions. A row is {path, name, doc}, where doc may be false.

local overview = [[
help 'name' or help(function) shows what a function does: help 'matmul', help(tide.zeros), help 'cuda.stream'.
help 'word' lists what mentions the word, help(object) the methods of a stream, a graph, a tensor. To begin:
  x = tide.randn(3, 4)          on the CPU; tide.randn(3, 4, {device = 'cuda'}) on a GPU
  x[1], x[{ {1, 2}, 3 }]        indexes count from 1, ranges include their end, -1 is the last
  (x * 2 + 1):sum(2)            operators and methods; names are torch's, an in-place form ends in _]]

local function in_module(path) return sub(path, 1, 1) == "t" end
local function full(path, name) return path .. (in_module(path) and "." or ":") .. name end

-- Does "Tensor:view" or "tide.view" answer to the query "view", "Tensor:view", "x:view", "tide.view" or "cuda.stream"?
local function matches(query, path, name)
  local whole = full(path, name)
  if query == name or query == whole or in_module(path) and query == sub(whole, 6) then return true end
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

-- The docs of what the query names; nil where it names nothing. tide.f and x:f often share one.
local function exact(query)
  local out, last
  each(function(path, name, doc)
    if not matches(query, path, name) or doc and doc == last then return end
    out, last = (out and out .. "\n\n" or "") .. (doc and shown_doc(doc) or full(path, name)), doc
  end)
  return out
end

-- What mentions the word; nil where nothing does.
local function near(word)
  local out, found = "See: ", 0
  each(function(path, name, doc)
    if found > 200 or sub(name, 1, 1) == "_" then return end
    if not find(name, word) and not (doc and #word > 3 and find(doc, word)) then return end
    out, found = out .. (found > 0 and ", " or "") .. full(path, name), found + 1
  end)
  return found > 0 and out or nil
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

local function of_name(query)
  local out = exact(query) or near(query)
  if out then return out end
  local last = query
  while find(last, ".") or find(last, ":") do last = sub(last, (find(last, ".") or find(last, ":")) + 1) end
  local meant = nearest(last)
  fail("ValueError", "help: nothing is known of '" .. query .. "'"
    .. (meant and ", did you mean '" .. meant .. "'?" or "; help() tells how to search"))
end

function help(...)
  local value, kind = ..., type(...)
  if count(...) == 0 then return overview end
  local query = kind == "string" and value
  if kind == "function" or kind == "table" then query = name_of(value) end
  local has = query and members(find(query, "tide") == 1 and query or "tide." .. query) or ""
  if has ~= "" then return (exact(query) or query) .. has end
  local out = kind == "userdata" and of_object(value) or kind == "function" and row_doc(value) or query and of_name(query)
  if not out then refuse(value, "name", "the name of a function of tide, the function itself, a class or an object") end
  return out
end
