-- Sums of products over labelled dimensions, for einsum and tensordot.
--
-- What is to be done follows from the equation and how the operands lie. So the operations are recorded when they are
-- done first, and done again from the record when that comes again.
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

local M = ...
local builtin, sizes_of, strides_of, dtype_of = use("tensor/compose.c", "builtin", "sizes_of", "strides_of", "dtype_of")
local permute, reshape, select, sum, matmul, mul, diagonal = builtin("permute", "reshape", "select", "sum", "matmul", "mul", "diagonal")
local unsqueeze, free, alias = builtin("unsqueeze", "free", "view_as")

local most_optimal, most_calls, most_short = 8, 16, 16

-- ---- the record ----

-- A list of steps {function, number of its operand, of its second one or false, where the result goes, arguments}, and
-- the number of each tensor; nil where nothing is recorded.
local record

local function note(fn, x, y, result, a, b, c)
  if not record then return end
  local number = record.number
  if result then
    record.count = record.count + 1
    number[result] = record.count
  end
  record[#record + 1] = { fn, number[x], y and number[y], result and record.count, a, b, c }
end

local function apply(fn, x, a, b, c)
  local result = fn(x, a, b, c)
  note(fn, x, false, result, a, b, c)
  return result
end

local function combine(fn, x, y)
  local result = fn(x, y)
  note(fn, x, y, result)
  return result
end

local function release(x)
  note(free, x)
  free(x)
end

local function replay(steps, operands)
  local x = {}
  for i = 1, #operands do x[i] = operands[i] end
  for i = 1, #steps do
    local s = steps[i]
    if s[3] then
      x[s[4]] = s[1](x[s[2]], x[s[3]])
    elseif s[4] then
      x[s[4]] = s[1](x[s[2]], s[5], s[6], s[7])
    else
      s[1](x[s[2]])
    end
  end
  return x[steps.result]
end

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
  if operand.own then release(operand.x) end
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
      replace(operand, apply(diagonal, operand.x, 0, first, d), rest)
      seen, d = {}, 1
    else
      seen[label], d = d, d + 1
    end
  end
end

local function drop_ones(operand)
  for d = #operand.labels, 1, -1 do
    if sizes_of(operand.x)[d] == 1 then replace(operand, apply(select, operand.x, d, 1), without(operand.labels, d)) end
  end
end

-- Sums over the labels that are not in the mask.
local function sum_out(operand, keep, dtype)
  local dims, rest = {}, {}
  for d = 1, #operand.labels do
    if bit_of(operand.labels[d]) & keep == 0 then dims[#dims + 1] = d else rest[#rest + 1] = operand.labels[d] end
  end
  if #dims > 0 then replace(operand, apply(sum, operand.x, dims, dtype and { dtype = dtype }), rest) end
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

local function same_list(a, b)
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return #a == #b
end

-- The operand with its labels in this order: itself, or a new tensor and true.
local function arranged(operand, order)
  if same_list(operand.labels, order) then return operand.x, false end
  local dim, dims = {}, {}
  for d = 1, #operand.labels do dim[operand.labels[d]] = d end
  for i = 1, #order do dims[i] = dim[order[i]] end
  return apply(permute, operand.x, dims), true
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

-- In another shape: itself and `own`, or a new tensor and true; an own one goes then.
local function reshaped(x, shape, own)
  if same_list(sizes_of(x), shape) then return x, own end
  local result = apply(reshape, x, shape)
  if own then release(x) end
  return result, true
end

-- [batch..., rows, columns] of an operand, and whether it is a new tensor; with `flat` the batch is one dimension.
local function as_matrices(operand, batch, rows, columns, flat, sizes)
  local x, own = arranged(operand, append(append(append({}, batch), rows), columns))
  local shape = flat and (#batch > 0 and { total(batch, sizes) } or {}) or lengths(batch, sizes, {})
  shape[#shape + 1], shape[#shape + 2] = total(rows, sizes), total(columns, sizes)
  return reshaped(x, shape, own)
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
    local x, is_own = arranged(operand, own)
    return reshaped(x, shape, is_own)
  end
  local x, own_x = spread(a)
  local y, own_y = spread(b)
  local result = combine(mul, x, y)
  if own_x then release(x) end
  if own_y then release(y) end
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

-- Products in 16-bit floats are rounded before they are added.
local function is_exact(x)
  local dtype = dtype_of(x)
  return dtype ~= "float16" and dtype ~= "bfloat16"
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
  if #left == 0 and #right == 0 and #batch > 0 and total(summed, sizes) <= most_short and is_exact(a.x) then
    local product = multiply(a, b, append(append({}, batch), summed), sizes) -- many short scalar products
    sum_out(product, keep, (dtype_of(a.x)))
    return product
  end
  if is_later(left, right, order) then a, b, left, right = b, a, right, left end
  local flat = is_one(a, batch) and is_one(b, batch) or calls(batch, sizes) > most_calls
  local x, own_x = as_matrices(a, batch, left, summed, flat, sizes)
  local y, own_y = as_matrices(b, batch, summed, right, flat, sizes)
  local product = combine(matmul, x, y)
  if own_x then release(x) end
  if own_y then release(y) end
  local labels = append(append(append({}, batch), left), right)
  return { x = reshaped(product, lengths(labels, sizes, {}), true), labels = labels, own = true }
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

-- The result of an operand: a new tensor, with its labels in this order.
local function finished(operand, order)
  local result, own = arranged(operand, order)
  if own then
    if operand.own then release(operand.x) end
  elseif not operand.own then
    result = combine(alias, result, result)
  end
  return result
end

-- The product of the operands, summed over what is not in `output`, a list of labels, in whose order it comes.
-- sizes[label]: its size; 1 where it is 1 everywhere.
function M.all(operands, output, sizes)
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
    if a.own then release(a.x) end
    if b.own then release(b.x) end
    return result, set
  end
  local last = walk(tree)
  local result = finished(last, order)
  for i = 1, #output do
    if sizes[output[i]] == 1 then
      local wider = apply(unsqueeze, result, i)
      release(result)
      result = wider
    end
  end
  return result
end

-- ---- calls that come again ----

local records, kept_records = {}, 0 -- by the function that evaluates, and the key

-- evaluate(what, tensors), which calls M.all; or what it did when the key was the same.
function M.recorded(key, evaluate, what, tensors)
  local own = records[evaluate]
  local known = own and own[key]
  if known then return replay(known, tensors) end
  local steps, before = { number = {}, count = #tensors }, record -- a finaliser may have interrupted another call
  for i = 1, #tensors do steps.number[tensors[i]] = i end
  record = steps
  local _ <close> = setmeta({}, { __close = function() record = before end })
  local result = evaluate(what, tensors)
  if kept_records >= 256 then records, kept_records = {}, 0 end
  steps.result, steps.number = steps.number[result], nil
  records[evaluate] = records[evaluate] or {}
  records[evaluate][key], kept_records = steps, kept_records + 1
  return result
end
