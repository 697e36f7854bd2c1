-- einsum and tensordot: sums of products over named dimensions.
--
-- An operand is {x =, labels =, own =}: a tensor, the label of each of its dimensions, and whether it was made here. A
-- label is a number; its bit in a mask says that it is in a set. Labels whose size is 1 everywhere they stand, or in this
-- operand alone, are dropped first and come back as dimensions of size 1 at the end; repeated ones become diagonals, and
-- what stands in one operand only and not in the result is summed there.
--
-- Two operands are contracted by one product of batches of matrices. The labels of each fall into three groups: batch
-- (in both and in the result), summed (in both and not in the result) and free. Within a group the order is ours to
-- choose: it is the one in which an operand lies in memory, so that the group is one dimension of a view and nothing is
-- copied where that can be; matmul takes any strides of the batch and either order of a matrix.
--
-- More than two are contracted in pairs. Up to 8: the order of the fewest multiplications, found for every subset from
-- those of its parts (Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences for
-- tensor networks, 2014). More: always the pair whose result is smallest beside its operands, as opt_einsum does it
-- (Smith and Gray, Journal of Open Source Software 3, 753, 2018).

local permute, reshape, select, sum, matmul = builtin "permute", builtin "reshape", builtin "select", builtin "sum", builtin "matmul"
local mul, diagonal, unsqueeze, free, alias = builtin "mul", builtin "diagonal", builtin "unsqueeze", builtin "free", builtin "view_as"

local most_labels, most_optimal, most_calls = 63, 8, 16

local function bit_of(label) return 1 << label - 1 end

local function mask_of(labels)
  local mask = 0
  for d = 1, #labels do mask = mask | bit_of(labels[d]) end
  return mask
end

-- The product of the sizes of the labels of a mask; a float, which does not wrap.
local function size_of(mask, sizes)
  local n, label = 1.0, 1
  while mask ~= 0 do
    if mask & 1 == 1 then n = n * sizes[label] end
    mask, label = mask >> 1, label + 1
  end
  return n
end

-- ---- one operand ----

local function replace(operand, x, labels)
  if operand.own then free(operand.x) end
  operand.x, operand.labels, operand.own = x, labels, true
end

local function without(labels, d)
  local rest = {}
  for i = 1, #labels do
    if i ~= d then rest[#rest + 1] = labels[i] end
  end
  return rest
end

local function take_diagonals(operand)
  local seen, d = {}, 1
  while d <= #operand.labels do
    local label = operand.labels[d]
    local first = seen[label]
    if first then
      local rest = without(without(operand.labels, d), first)
      rest[#rest + 1] = label
      replace(operand, diagonal(operand.x, 0, first, d), rest)
      seen, d = {}, 1
    else
      seen[label], d = d, d + 1
    end
  end
end

local function drop_ones(operand)
  for d = #operand.labels, 1, -1 do
    if sizes_of(operand.x)[d] == 1 then replace(operand, select(operand.x, d, 1), without(operand.labels, d)) end
  end
end

-- Sums over the labels that are not in the mask.
local function sum_out(operand, keep, dtype)
  local dims, rest = {}, {}
  for d = 1, #operand.labels do
    if bit_of(operand.labels[d]) & keep == 0 then dims[#dims + 1] = d else rest[#rest + 1] = operand.labels[d] end
  end
  if #dims > 0 then replace(operand, sum(operand.x, dims, dtype and { dtype = dtype }), rest) end
end

-- ---- two operands ----

-- The dimensions of the labels in the mask, from the widest stride to the narrowest.
local function by_stride(operand, mask)
  local strides, list = strides_of(operand.x), {}
  for d = 1, #operand.labels do
    if bit_of(operand.labels[d]) & mask ~= 0 then
      local i = #list + 1
      while i > 1 and strides[list[i - 1].dim] < strides[d] do
        list[i] = list[i - 1]
        i = i - 1
      end
      list[i] = { dim = d, label = operand.labels[d] }
    end
  end
  local labels = {}
  for i = 1, #list do labels[i] = list[i].label end
  return labels
end

-- Are these dimensions one, in this order, without a copy?
local function is_one(operand, order)
  local dim, s, strides = {}, sizes_of(operand.x), strides_of(operand.x)
  for d = 1, #operand.labels do dim[operand.labels[d]] = d end
  for i = 1, #order - 1 do
    local outer, inner = dim[order[i]], dim[order[i + 1]]
    if strides[outer] ~= strides[inner] * s[inner] then return false end
  end
  return true
end

-- The order of a group that both operands have: of the one or the other as it lies, whichever copies less.
local function shared_order(a, b, mask, size_a, size_b)
  local of_a, of_b = by_stride(a, mask), by_stride(b, mask)
  local cost_a = is_one(b, of_a) and 0 or size_b
  local cost_b = is_one(a, of_b) and 0 or size_a
  if not is_one(a, of_a) then cost_a = cost_a + size_a end
  if not is_one(b, of_b) then cost_b = cost_b + size_b end
  return cost_a <= cost_b and of_a or of_b
end

local function append(list, more)
  for i = 1, #more do list[#list + 1] = more[i] end
  return list
end

-- The operand with its labels in this order.
local function arranged(operand, order)
  local dim, dims = {}, {}
  for d = 1, #operand.labels do dim[operand.labels[d]] = d end
  for i = 1, #order do dims[i] = dim[order[i]] end
  return #dims > 0 and permute(operand.x, dims) or alias(operand.x, operand.x)
end

local function lengths(labels, sizes, list)
  for i = 1, #labels do list[#list + 1] = sizes[labels[i]] end
  return list
end

local function total(labels, sizes)
  local n = 1
  for i = 1, #labels do n = n * sizes[labels[i]] end
  return n
end

-- [batch..., rows, columns] of an operand; with `flat` the batch is one dimension.
local function as_matrices(operand, batch, rows, columns, flat, sizes)
  local x = arranged(operand, append(append(append({}, batch), rows), columns))
  local shape = flat and (#batch > 0 and { total(batch, sizes) } or {}) or lengths(batch, sizes, {})
  shape[#shape + 1], shape[#shape + 2] = total(rows, sizes), total(columns, sizes)
  local matrices = reshape(x, shape)
  free(x)
  return matrices
end

-- Calls that matmul would make for a batch whose dimensions lie as they like.
local function calls(batch, sizes)
  local longest = 1
  for i = 1, #batch do longest = sizes[batch[i]] > longest and sizes[batch[i]] or longest end
  return total(batch, sizes) // (longest > 0 and longest or 1)
end

-- Products of single elements: nothing is summed.
local function multiply(a, b, order, sizes)
  local function spread(operand)
    local mine, shape = mask_of(operand.labels), {}
    local own = {}
    for i = 1, #order do
      local has = bit_of(order[i]) & mine ~= 0
      shape[i] = has and sizes[order[i]] or 1
      if has then own[#own + 1] = order[i] end
    end
    local x = arranged(operand, own)
    for i = 1, #order do
      if bit_of(order[i]) & mine == 0 then
        local wider = unsqueeze(x, i)
        free(x)
        x = wider
      end
    end
    return x
  end
  local x, y = spread(a), spread(b)
  local result = mul(x, y)
  free(x)
  free(y)
  return { x = result, labels = order, own = true }
end

-- Which of the two groups comes first in `order`, the labels of the result as they are wanted.
local function is_later(group, other, order)
  for i = 1, #order do
    for k = 1, #group do
      if group[k] == order[i] then return false end
    end
    for k = 1, #other do
      if other[k] == order[i] then return true end
    end
  end
  return false
end

local function contract(a, b, keep, order, sizes)
  local in_a, in_b = mask_of(a.labels), mask_of(b.labels)
  local both = in_a & in_b
  local kept = (in_a | in_b) & keep
  if both & ~keep == 0 then
    local labels = order
    if mask_of(order) ~= kept then
      labels = append(by_stride(a, in_a), by_stride(b, in_b & ~in_a))
    end
    return multiply(a, b, labels, sizes)
  end
  local size_a, size_b = size_of(in_a, sizes), size_of(in_b, sizes)
  local summed = shared_order(a, b, both & ~keep, size_a, size_b)
  local batch = shared_order(a, b, both & keep, size_a, size_b)
  local left, right = by_stride(a, in_a & ~both), by_stride(b, in_b & ~both)
  if is_later(left, right, order) then a, b, left, right = b, a, right, left end
  local flat = is_one(a, batch) and is_one(b, batch) or calls(batch, sizes) > most_calls
  local x = as_matrices(a, batch, left, summed, flat, sizes)
  local y = as_matrices(b, batch, summed, right, flat, sizes)
  local product = matmul(x, y)
  free(x)
  free(y)
  local labels = append(append(append({}, batch), left), right)
  local result = reshape(product, lengths(labels, sizes, {}))
  free(product)
  return { x = result, labels = labels, own = true }
end

-- ---- the order of contractions ----

-- keep[set]: the labels that a product of the operands in the set needs: those that others or the result have.
local function kept_by(set, masks, n, output)
  local inside, outside = 0, output
  for i = 1, n do
    if set & bit_of(i) ~= 0 then inside = inside | masks[i] else outside = outside | masks[i] end
  end
  return inside & outside, inside
end

-- The cheapest order of n operands as a tree: a number, or {left, right}.
local function optimal(masks, n, output, sizes)
  local cost, tree, kept = {}, {}, {}
  for i = 1, n do cost[bit_of(i)], tree[bit_of(i)], kept[bit_of(i)] = 0, i, masks[i] end
  for set = 1, (1 << n) - 1 do
    if not tree[set] then
      kept[set] = kept_by(set, masks, n, output)
      local best, lowest = 1 / 0, set & -set
      local part = (set - 1) & set
      while part > 0 do
        if part & lowest ~= 0 then
          local other = set & ~part
          local c = cost[part] + cost[other]
          if c < best then c = c + size_of(kept[part] | kept[other], sizes) end
          if c < best or not tree[set] then best, tree[set] = c, { tree[part], tree[other] } end
        end
        part = (part - 1) & set
      end
      cost[set] = best
    end
  end
  return tree[(1 << n) - 1]
end

local function greedy(masks, n, output, sizes)
  local list = {}
  for i = 1, n do list[i] = { mask = masks[i], tree = i } end
  while #list > 1 do
    local best, at, with
    for i = 1, #list do
      for k = i + 1, #list do
        local outside = output
        for o = 1, #list do
          if o ~= i and o ~= k then outside = outside | list[o].mask end
        end
        local mask = (list[i].mask | list[k].mask) & outside
        local c = size_of(mask, sizes) - size_of(list[i].mask, sizes) - size_of(list[k].mask, sizes)
        if not best or c < best.cost then best, at, with = { mask = mask, cost = c }, i, k end
      end
    end
    list[at] = { mask = best.mask, tree = { list[at].tree, list[with].tree } }
    list[with] = list[#list]
    list[#list] = nil
  end
  return list[1].tree
end

-- ---- all of them ----

local function finished(operand, order)
  local result = arranged(operand, order)
  if operand.own then free(operand.x) end
  return result
end

-- The product of the operands, summed over what is not in `output`, a list of labels, in whose order it comes.
-- sizes[label]: its size; 1 where it is 1 everywhere.
local function evaluate(operands, output, sizes)
  local n, order, masks = #operands, {}, {}
  if n == 1 then -- sum gives the dtype
    take_diagonals(operands[1])
    sum_out(operands[1], mask_of(output))
    return finished(operands[1], output)
  end
  for i = 1, #output do
    if sizes[output[i]] ~= 1 then order[#order + 1] = output[i] end
  end
  local target = mask_of(order)
  for i = 1, n do
    take_diagonals(operands[i])
    drop_ones(operands[i])
    masks[i] = mask_of(operands[i].labels)
  end
  for i = 1, n do
    local others = target
    for k = 1, n do others = k ~= i and others | masks[k] or others end
    sum_out(operands[i], others, (dtype_of(operands[i].x)))
    masks[i] = masks[i] & others
  end
  local tree = n == 2 and { 1, 2 } or (n <= most_optimal and optimal or greedy)(masks, n, target, sizes)
  -- Gives the product of a tree, and the set of operands in it.
  local function walk(t)
    if type(t) == "number" then return operands[t], bit_of(t) end
    local a, in_a = walk(t[1])
    local b, in_b = walk(t[2])
    local set = in_a | in_b
    local keep = target
    for i = 1, n do keep = set & bit_of(i) == 0 and keep | masks[i] or keep end
    local result = contract(a, b, keep, order, sizes)
    if a.own then free(a.x) end
    if b.own then free(b.x) end
    return result, set
  end
  local last = walk(tree)
  local result = finished(last, order)
  for i = 1, #output do
    if sizes[output[i]] == 1 then
      local wider = unsqueeze(result, i)
      free(result)
      result = wider
    end
  end
  return result
end

local function check_dtypes(operands, names)
  local dtype, kind = dtype_of(operands[1])
  if kind == "B" and #operands > 1 then
    fail("DtypeError", called() .. ": " .. names(1) .. ": got " .. describe(operands[1]) .. ", expected one of numbers")
  end
  for i = 2, #operands do
    if dtype_of(operands[i]) ~= dtype then
      fail("DtypeError", called() .. ": " .. names(i) .. ": got " .. describe(operands[i]) .. ", expected one of " .. dtype
        .. " as of the first")
    end
    if place_of(operands[i]) ~= place_of(operands[1]) then
      fail("DeviceError", called() .. ": " .. names(i) .. ": got one on " .. place_of(operands[i]) .. ", expected "
        .. place_of(operands[1]) .. " as of the first")
    end
  end
end

-- ---- the equation ----

local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

local function bad(equation, at, got, expected)
  fail("ValueError", called() .. ": equation: got " .. got .. " at character " .. at .. " of '" .. equation .. "', expected "
    .. expected)
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

local parsed, kept_equations = {}, 0

local function parse_once(equation)
  local p = parsed[equation]
  if p then return p end
  p = parse(equation)
  if kept_equations >= 256 then parsed, kept_equations = {}, 0 end
  parsed[equation], kept_equations = p, kept_equations + 1
  return p
end

-- How many dimensions "..." stands for in each operand, and the most.
local function dotted(equation, p, operands)
  local counts, most = {}, 0
  for i = 1, #operands do
    local term, ndim = p.terms[i], #sizes_of(operands[i])
    local named = #term - (term.dots and 1 or 0)
    if term.dots and ndim < named or not term.dots and ndim ~= named then
      fail("ShapeError", called() .. ": operand " .. i .. ": got " .. describe(operands[i]) .. ", expected "
        .. (term.dots and "at least " or "") .. named .. " dimensions as term " .. i .. " of '" .. equation .. "' has")
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
        fail("ShapeError", called() .. ": operand " .. i .. ": got size " .. s[d] .. " of dimension " .. d
          .. (name and " ('" .. name .. "')" or "") .. ", expected " .. known
          .. (here[label] and " as before in the same operand" or " as in operand " .. owner[label]) .. ", of '" .. equation .. "'")
      end
      here[label] = s[d]
      if not sizes[label] or sizes[label] == 1 then sizes[label], owner[label] = s[d], i end
    end
  end
  return sizes
end

function einsum(equation, tensors)
  local p = parse_once(equation)
  if #tensors ~= #p.terms then
    fail("ValueError", called() .. ": operands: got " .. #tensors .. ", expected " .. #p.terms .. ", one for each term of '"
      .. equation .. "'")
  end
  check_dtypes(tensors, function(i) return "operand " .. i end)
  local counts, most = dotted(equation, p, tensors)
  local number, n = numbers_of(p, most)
  if p.output then check_output(equation, p, number) end
  if n > most_labels then
    fail("ValueError", called() .. ": equation: got " .. n .. " labels in '" .. equation .. "', expected at most " .. most_labels)
  end
  local operands = {}
  for i = 1, #tensors do
    operands[i] = { x = tensors[i], labels = labels_of(p.terms[i], number, counts[i], most) }
  end
  local output = labels_of(p.output or implied(p), number, most, most)
  return evaluate(operands, output, label_sizes(equation, p, operands))
end

-- ---- tensordot ----

local function dims_list(value, x, name)
  local list, ndim, seen = type(value) == "table" and plain(value) or { value }, #sizes_of(x), {}
  local dims = {}
  for i = 1, #list do
    local d = list[i]
    if not is_integer(d) then refuse(d, name, "a dimension or a table of them") end
    if d == 0 or d > ndim or d < -ndim then
      fail("IndexError", called() .. ": " .. name .. ": got dimension " .. d .. " of " .. describe(x) .. ", expected 1 to " .. ndim
        .. ", or -1 to -" .. ndim)
    end
    d = d < 0 and d + ndim + 1 or d
    if seen[d] then fail("ValueError", called() .. ": " .. name .. ": got dimension " .. d .. " twice, expected each once") end
    seen[d], dims[i] = true, d
  end
  return dims
end

local function contracted(a, b, dims)
  if type(dims) == "table" then
    local pair = plain(dims)
    if #pair ~= 2 then refuse(dims, "dims", "an integer, or a table of two: of dimensions of a and of b") end
    local of_a, of_b = dims_list(pair[1], a, "dims[1]"), dims_list(pair[2], b, "dims[2]")
    if #of_a ~= #of_b then
      fail("ValueError", called() .. ": dims: got " .. #of_a .. " of a and " .. #of_b .. " of b, expected as many")
    end
    return of_a, of_b
  end
  if not is_integer(dims) then refuse(dims, "dims", "an integer, or a table of two: of dimensions of a and of b") end
  local n, m = #sizes_of(a), #sizes_of(b)
  if dims < 0 or dims > n or dims > m then
    fail("ValueError", called() .. ": dims: got " .. dims .. " of " .. describe(a) .. " and " .. describe(b) .. ", expected 0 to "
      .. (n < m and n or m))
  end
  local of_a, of_b = {}, {}
  for i = 1, dims do of_a[i], of_b[i] = n - dims + i, i end
  return of_a, of_b
end

function tensordot(a, b, dims)
  local of_a, of_b = contracted(a, b, dims or 2)
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
  return evaluate({ { x = a, labels = labels }, { x = b, labels = others } }, output, sizes)
end
