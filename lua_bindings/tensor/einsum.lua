-- einsum and tensordot: what they are given becomes labelled dimensions, which contract.lua sums over.

local M = ...
local contract = use "tensor/contract"
local dtype_of, place_of, char_at, sizes_of, layout_key, plain = use("tensor/compose.c", "dtype_of", "place_of", "char_at", "sizes_of", "layout_key", "plain")
local most_labels = 63 -- bits of a mask, and one to spare

local function check_dtypes(operands, names)
  local dtype, kind = dtype_of(operands[1])
  if kind == "B" and #operands > 1 then reject("DtypeError", names(1), describe(operands[1]), "one of numbers") end
  for i = 2, #operands do
    if dtype_of(operands[i]) ~= dtype then
      reject("DtypeError", names(i), describe(operands[i]), "one of " .. dtype .. " as of the first")
    end
    if place_of(operands[i]) ~= place_of(operands[1]) then
      reject("DeviceError", names(i), "one on " .. place_of(operands[i]), place_of(operands[1]) .. " as of the first")
    end
  end
end

-- ---- the equation ----

local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

local function bad(equation, at, got, expected)
  reject("ValueError", "equation", got .. " at character " .. at .. " of '" .. equation .. "'", expected)
end

-- Reads it into terms, one for each operand and one for the result, if that is given: lists of letters, in which "..."
-- stands for the dimensions that have none.
local function parse(equation)
  local terms, i, arrow = { {} }, 1, nil
  while true do
    local c, term = char_at(equation, i), terms[#terms]
    if c == "" then break end
    if find(letters, c) then
      term[#term + 1] = c
      term.at = term.at or i
    elseif c == "." then
      if char_at(equation, i + 1) .. char_at(equation, i + 2) ~= ".." then bad(equation, i, "'.'", "three of them, or none") end
      if term.dots then bad(equation, i, "a second '...'", "at most one for an operand or the result") end
      term.dots, term.at = true, term.at or i
      term[#term + 1] = "..."
      i = i + 2
    elseif c == "," then
      if arrow then bad(equation, i, "','", "the labels of one result behind '->'") end
      terms[#terms + 1] = {}
    elseif c == "-" then
      if char_at(equation, i + 1) ~= ">" then bad(equation, i, "'-'", "'->'") end
      if arrow then bad(equation, i, "a second '->'", "one") end
      arrow = #terms
      terms[#terms + 1] = {}
      i = i + 1
    elseif c ~= " " then
      bad(equation, i, "'" .. c .. "'", "letters, '...', ',', '->' or blanks")
    end
    i = i + 1
  end
  local output = arrow and terms[#terms] or nil
  if arrow then terms[#terms] = nil end
  return { terms = terms, output = output }
end

-- How many dimensions "..." stands for in each operand, and the most.
local function dotted(equation, p, operands)
  local counts, most = {}, 0
  for i = 1, #operands do
    local term, ndim = p.terms[i], #sizes_of(operands[i])
    local named = #term - (term.dots and 1 or 0)
    if term.dots and ndim < named or not term.dots and ndim ~= named then
      reject("ShapeError", "operand " .. i, describe(operands[i]), (term.dots and "at least " or "") .. named
        .. " dimensions as term " .. i .. " of '" .. equation .. "' has")
    end
    counts[i] = ndim - named
    most = counts[i] > most and counts[i] or most
  end
  return counts, most
end

-- The labels of the result where the equation does not say: the dimensions of "...", and the letters that stand there
-- once, in the order of the alphabet.
local function implied(p)
  local count, output = {}, { "..." }
  for i = 1, #p.terms do
    for k = 1, #p.terms[i] do
      local c = p.terms[i][k]
      count[c] = (count[c] or 0) + 1
    end
  end
  for i = 1, 52 do
    local c = sub(letters, i, i)
    if count[c] == 1 then output[#output + 1] = c end
  end
  return output
end

-- The number of each label: the dimensions of "..." come first, the last of them is `most`.
local function numbers_of(p, most)
  local number, n = {}, most
  for i = 1, #p.terms do
    for k = 1, #p.terms[i] do
      local c = p.terms[i][k]
      if c ~= "..." and not number[c] then
        n = n + 1
        number[c] = n
      end
    end
  end
  return number, n
end

local function labels_of(term, number, dots, most)
  local labels = {}
  for k = 1, #term do
    if term[k] == "..." then
      for d = most - dots + 1, most do labels[#labels + 1] = d end
    else
      labels[#labels + 1] = number[term[k]]
    end
  end
  return labels
end

local function check_output(equation, p, number)
  local seen = {}
  for k = 1, #p.output do
    local c = p.output[k]
    if c ~= "..." and not number[c] then
      bad(equation, p.output.at, "'" .. c .. "' in the result", "labels of operands")
    end
    if seen[c] then bad(equation, p.output.at, "'" .. c .. "' twice in the result", "each label once") end
    seen[c] = true
  end
end

-- The size of each label: of several the one that is not 1.
local function label_sizes(equation, p, operands)
  local sizes, owner = {}, {}
  for i = 1, #operands do
    local s, labels, here = sizes_of(operands[i].x), operands[i].labels, {}
    for d = 1, #s do
      local label = labels[d]
      local known = here[label] or (sizes[label] ~= 1 and sizes[label]) or nil
      if known and known ~= s[d] and (here[label] or s[d] ~= 1) then
        local name
        for k = 1, #p.terms[i] do
          if #p.terms[i] == #s and k == d then name = p.terms[i][k] end
        end
        reject("ShapeError", "operand " .. i, "size " .. s[d] .. " of dimension " .. d .. (name and " ('" .. name .. "')" or ""),
          known .. (here[label] and " as before in the same operand" or " as in operand " .. owner[label]) .. ", of '" .. equation .. "'")
      end
      here[label] = s[d]
      if not sizes[label] or sizes[label] == 1 then sizes[label], owner[label] = s[d], i end
    end
  end
  return sizes
end

local function evaluate_equation(equation, tensors)
  local p = parse(equation)
  if #tensors ~= #p.terms then
    reject("ValueError", "operands", #tensors, #p.terms .. ", one for each term of '" .. equation .. "'")
  end
  check_dtypes(tensors, function(i) return "operand " .. i end)
  local counts, most = dotted(equation, p, tensors)
  local number, n = numbers_of(p, most)
  if p.output then check_output(equation, p, number) end
  if n > most_labels then
    reject("ValueError", "equation", n .. " labels in '" .. equation .. "'", "at most " .. most_labels)
  end
  local operands = {}
  for i = 1, #tensors do
    operands[i] = { x = tensors[i], labels = labels_of(p.terms[i], number, counts[i], most) }
  end
  local output = labels_of(p.output or implied(p), number, most, most)
  return contract.all(operands, output, label_sizes(equation, p, operands))
end

function M.einsum(equation, tensors)
  return contract.recorded(layout_key(equation, tensors), evaluate_equation, equation, tensors)
end

-- ---- tensordot ----

local function dims_list(value, x, name)
  local list, ndim, seen = type(value) == "table" and plain(value) or { value }, #sizes_of(x), {}
  local dims, first = {}, index_base()
  for i = 1, #list do
    local d = list[i]
    if not is_integer(d) then refuse(d, name, "a dimension or a table of them") end
    local at = d < 0 and d + ndim + 1 or d + 1 - first
    if at < 1 or at > ndim then
      reject("IndexError", name, "dimension " .. d .. " of " .. describe(x), first .. " to " .. ndim - 1 + first
        .. ", or -1 to -" .. ndim)
    end
    if seen[at] then reject("ValueError", name, "dimension " .. d .. " twice", "each once") end
    seen[at], dims[i] = true, at
  end
  return dims
end

local function contracted(a, b, dims)
  if type(dims) == "table" then
    local pair = plain(dims)
    if #pair ~= 2 then refuse(dims, "dims", "an integer, or a table of two: of dimensions of a and of b") end
    local of_a, of_b = dims_list(pair[1], a, "dims[1]"), dims_list(pair[2], b, "dims[2]")
    if #of_a ~= #of_b then reject("ValueError", "dims", #of_a .. " of a and " .. #of_b .. " of b", "as many") end
    return of_a, of_b
  end
  if not is_integer(dims) then refuse(dims, "dims", "an integer, or a table of two: of dimensions of a and of b") end
  local n, m = #sizes_of(a), #sizes_of(b)
  if dims < 0 or dims > n or dims > m then
    reject("ValueError", "dims", dims .. " of " .. describe(a) .. " and " .. describe(b), "0 to " .. (n < m and n or m))
  end
  local of_a, of_b = {}, {}
  for i = 1, dims do of_a[i], of_b[i] = n - dims + i, i end
  return of_a, of_b
end

local function evaluate_dims(dims, tensors)
  local of_a, of_b, a, b = dims[1], dims[2], tensors[1], tensors[2]
  check_dtypes({ a, b }, function(i) return i == 1 and "a" or "b" end)
  local s, t, labels, others, sizes, output = sizes_of(a), sizes_of(b), {}, {}, {}, {}
  for i = 1, #of_a do
    local x, y = s[of_a[i]], t[of_b[i]]
    if x ~= y and x ~= 1 and y ~= 1 then
      fail("ShapeError", called() .. ": got size " .. x .. " of dimension " .. of_a[i] .. " of a and " .. y .. " of dimension "
        .. of_b[i] .. " of b, expected equal sizes")
    end
    labels[of_a[i]], others[of_b[i]], sizes[i] = i, i, x ~= 1 and x or y
  end
  local n = #of_a
  local function rest(list, size)
    for d = 1, #size do
      if not list[d] then
        n = n + 1
        list[d], sizes[n], output[#output + 1] = n, size[d], n
      end
    end
  end
  rest(labels, s)
  rest(others, t)
  return contract.all({ { x = a, labels = labels }, { x = b, labels = others } }, output, sizes)
end

function M.tensordot(a, b, dims)
  local of_a, of_b = contracted(a, b, dims or 2)
  local key = "dims"
  for i = 1, #of_a do key = key .. " " .. of_a[i] .. " " .. of_b[i] end
  return contract.recorded(layout_key(key, { a, b }), evaluate_dims, { of_a, of_b }, { a, b })
end
