-- Files of tide.distributed that all ranks write: safetensors, which other programs read.
--
-- What one rank cannot do fails on all: after each step they exchange their problems. Rank 0 makes `path.tmp` with its
-- head and room for all; each rank writes its bytes there; rank 0 gives it its name. A save that ends in between leaves
-- what was there before.
--
-- A field stands in the file with its global shape. Where it is cut along other dimensions than the first, the ranks of
-- one place along the first exchange their pieces, so that each writes whole rows: one range of bytes for each field.
--
-- Values of a tree stand under the names of their keys, joined by points. Numbers, strings and booleans are texts of the
-- metadata: true, 12, 0.5, "text". The halos of fields stand there as tide.halo.NAME: "1,1".

local M = ...
local grids = use "distributed/grid"
local builtin, dtype_of, sizes_of = use("tensor/compose.c", "builtin", "dtype_of", "sizes_of")
local json_text, byte_text, make_file, write_parts = use("distributed/distributed_grid.c", "json_text", "byte_text", "make_file", "write_parts")
local rename_file, remove_file, number_of, start_message = use("distributed/distributed_grid.c", "rename_file", "remove_file", "number_of", "start_message")
local finish_message, region, size_of_dtype, hash_of, bytes_of = use("distributed/distributed_grid.c", "finish_message", "region", "size_of_dtype", "hash_of", "bytes_of")
local gather_objects, rank_of, world_size = public("tide.distributed", "all_gather_object", "get_rank", "get_world_size")
local load_tensors, list_names, encode, decode = public("tide", "load_safetensors", "safetensors_names", "serialize", "deserialize")
local make_empty = public("tide", "empty")
local convert, contiguous = builtin("to", "contiguous")

local row_tag = 30001
local names = { bool = "BOOL", uint8 = "U8", int8 = "I8", int16 = "I16", int32 = "I32", int64 = "I64", float16 = "F16", bfloat16 = "BF16",
  float32 = "F32", float64 = "F64", complex64 = "C64" }

-- Calls fn; an error of any rank is raised on all, the first one's. Returns what fn returned on each.
local function together(fn)
  local result
  local ok, e = try(function() result = fn() end)
  local problem = { kind = "FileError", message = ok or text(e) }
  if not ok and is_error(e) then
    problem = { kind = rawget(e, "kind"), message = rawget(e, "message") }
  end
  local all = {}
  gather_objects(all, ok and { value = result } or { problem = problem })
  for i = 1, #all do
    if all[i].problem then fail(all[i].problem.kind, all[i].problem.message) end
    all[i] = all[i].value
  end
  return all
end

local function sort_by_name(list)
  for i = 2, #list do
    local one, at = list[i], i
    while at > 1 and one[1] < list[at - 1][1] do
      list[at], at = list[at - 1], at - 1
    end
    list[at] = one
  end
  return list
end

local function list_sorted(t)
  local list = {}
  for name, value in next, t do list[#list + 1] = { name, value } end
  return sort_by_name(list)
end

-- ---- the head ----

-- The entries {name, dtype, shape, bytes, ...} get their places behind it: those of larger elements first, so that all
-- are aligned. Returns it as the file has it.
local function make_head(entries, notes)
  local order, parts, offset = {}, {}, 0
  for width = 1, 4 do
    for i = 1, #entries do
      local each = entries[i].each
      if (each >= 8 and 1 or each == 4 and 2 or each == 2 and 3 or 4) == width then order[#order + 1] = entries[i] end
    end
  end
  local metadata = {}
  for i = 1, #notes do metadata[i] = json_text(notes[i][1]) .. ":" .. json_text(notes[i][2]) end
  if #metadata > 0 then parts[1] = '"__metadata__":{' .. join(metadata, ",") .. "}" end
  for i = 1, #order do
    local e = order[i]
    e.offset, offset = offset, offset + e.bytes
    parts[#parts + 1] = json_text(e.name) .. ':{"dtype":"' .. e.dtype .. '","shape":[' .. join(e.shape, ",") .. '],"data_offsets":['
      .. e.offset .. "," .. offset .. "]}"
  end
  local head = "{" .. join(parts, ",") .. "}"
  while (8 + #head) % 64 ~= 0 do head = head .. " " end
  local size, length = {}, #head
  for i = 1, 8 do
    size[i], length = byte_text(length % 256), length // 256
  end
  return join(size) .. head, offset
end

-- The steps of a save. write(path, start): writes this rank's bytes, to the file whose values begin at `start`.
local function save_file(path, entries, notes, write)
  local head, bytes = make_head(entries, notes)
  local new = path .. ".tmp"
  local ok, e = try(function()
    together(function()
      if rank_of() > 0 then return end
      make_file(new, path, #head + bytes)
      write_parts(new, { 0 }, { head })
      list_names(new) -- it is one that can be read
    end)
    together(function()
      write(new, #head)
      write_parts(new, {}, {}) -- what was written before, too, is on the disk
    end)
    together(function()
      if rank_of() == 0 then rename_file(new, path) end
    end)
  end)
  if not ok then
    if rank_of() == 0 then remove_file(new) end
    throw(e)
  end
end

-- ---- trees ----

-- The integer that a key of digits means; nil: it is none.
local function whole_number(key)
  local n = number_of(key)
  if is_integer(n) and n .. "" == key then return n end
end

local function part_of_name(key)
  if is_integer(key) then return key .. "" end
  if type(key) ~= "string" or key == "" or key == "tide" or find(key, ".") or whole_number(key) then
    fail("ArgumentError", called() .. ": got the key " .. (type(key) == "string" and '"' .. key .. '"' or describe(key))
      .. ", expected integers, and strings that have no point and are neither numbers nor 'tide'")
  end
  return key
end

-- The leaves {name, value} of a tree, in the order of their names.
local function list_leaves(tree)
  local leaves = {}
  local function walk(value, name, depth)
    if depth > 100 then fail("ValueError", called() .. ": got tables nested more than 100 deep, expected fewer") end
    for key, below in next, value do
      local full = (name and name .. "." or "") .. part_of_name(key)
      if type(below) == "table" then walk(below, full, depth + 1) else leaves[#leaves + 1] = { full, below } end
    end
  end
  if type(tree) ~= "table" then refuse(tree, "tree", "a table") end
  walk(tree, nil, 1)
  return sort_by_name(leaves)
end

local function write_value_text(name, value)
  if type(value) == "boolean" then return value and "true" or "false" end
  if type(value) == "string" then return '"' .. value .. '"' end
  if type(value) ~= "number" then
    reject("ArgumentError", name, describe(value), "fields, tensors, numbers, strings and booleans")
  end
  local digits = literal(value)
  local is_plain = not find(digits, ".") and not find(digits, "e") and not find(digits, "n")
  return is_plain and not is_integer(value) and digits .. ".0" or digits
end

local function read_value_text(written)
  if written == "true" or written == "false" then return written == "true" end
  if #written >= 2 and sub(written, 1, 1) == '"' and sub(written, #written, #written) == '"' then return sub(written, 2, #written - 1) end
  if written == "inf" or written == "-inf" then return written == "inf" and 1e999 or -1e999 end
  if written == "nan" or written == "-nan" then return 0 / 0 end
  return number_of(written) or written -- of another program
end

-- "1,2" as a list
local function integers_of(written)
  local out = {}
  while written do
    local comma = find(written, ",")
    out[#out + 1] = number_of(comma and sub(written, 1, comma - 1) or written)
    written = comma and sub(written, comma + 1)
  end
  return out
end

-- Sets tree[a][b] = value for the name "a.b".
local function set_leaf(tree, name, value)
  local at = tree
  while true do
    local point = find(name, ".")
    local key = point and sub(name, 1, point - 1) or name
    key = whole_number(key) or key
    if not point then
      at[key] = value
      return
    end
    if type(at[key]) ~= "table" then at[key] = {} end
    at, name = at[key], sub(name, point + 1)
  end
end

-- ---- fields ----

-- The ranks of this one's place along the first dimension, and its place among them.
local function plane_of(grid)
  local ranks, own = {}, nil
  for rank = 0, grid.size - 1 do
    local coords = grids.coords_of(grid, rank)
    if coords[1] == grid.coords[1] then
      ranks[#ranks + 1] = rank
      if rank == grid.rank then own = #ranks end
    end
  end
  return ranks, own
end

-- Of n rows in m shares: the first row of share i, from 1, and their number.
local function share(n, m, i)
  local first = n * (i - 1) // m + 1
  return first, n * i // m + 1 - first
end

-- Whole rows of the field on the cpu, and the first of them in the whole field.
local function collect_rows(grid, u, f)
  local own = contiguous(convert(grids.inside(grid, u), "cpu"))
  local ranks, me = plane_of(grid)
  if #ranks == 1 then return own, f.first[1] end
  local first, rows = share(f.count[1], #ranks, me)
  local sizes = { unpack(f.sizes, 1, #f.sizes) }
  sizes[1] = rows
  local out = make_empty(sizes, { dtype = u.dtype, device = "cpu" })
  local parts = {}
  for i = 1, #ranks do
    local start, size = grids.piece(grid, f.sizes, grids.coords_of(grid, ranks[i]))
    start[1], size[1] = 1, rows
    local x = i == me and own:narrow(1, first, rows) or make_empty(size, { dtype = u.dtype, device = "cpu" })
    local part = { x = x, start = start, size = size }
    if i ~= me and rows > 0 then part.work = start_message(false, x, grid.group, ranks[i], row_tag) end
    if rows > 0 then parts[#parts + 1] = part end
  end
  local sent = {}
  for i = 1, #ranks do
    local start, n = share(f.count[1], #ranks, i)
    if i ~= me and n > 0 then sent[#sent + 1] = start_message(true, own:narrow(1, start, n), grid.group, ranks[i], row_tag) end
  end
  for i = 1, #parts do
    local p = parts[i]
    if p.work then finish_message(p.work) end
    region(out, p.start, p.size):copy_(p.x)
  end
  for i = 1, #sent do finish_message(sent[i]) end
  return out, f.first[1] + first - 1
end

function M.save(grid, path, tree)
  local entries, notes
  local layouts = together(function()
    entries, notes = {}, { { "tide.cart", join(grid.dims, ",") } }
    local leaves = list_leaves(tree)
    local layout = {}
    for i = 1, #leaves do
      local name, value = leaves[i][1], leaves[i][2]
      local f = grid.fields[value]
      if f or grids.is_foreign(grid, value) then grids.look(grid, value, name) end
      if device_of(value) then
        local dtype = dtype_of(value)
        if not names[dtype] then
          reject("DtypeError", name, dtype .. ", which safetensors has no name for", "another dtype")
        end
        local shape, numel = f and f.sizes or sizes_of(value), 1
        for d = 1, #shape do numel = numel * shape[d] end
        entries[#entries + 1] = { name = name, x = value, f = f, dtype = names[dtype], shape = shape, each = size_of_dtype(value),
          bytes = numel * size_of_dtype(value) }
        if f then notes[#notes + 1] = { "tide.halo." .. name, join(f.halo, ",") } end
        layout[#layout + 1] = name .. " " .. dtype .. " " .. join(shape, ",")
          .. (f and "" or ", bytes " .. hash_of(contiguous(convert(value, "cpu"))))
      else
        notes[#notes + 1] = { name, write_value_text(name, value) }
      end
    end
    return join(layout, "; ")
  end)
  for rank = 1, grid.size - 1 do
    if layouts[rank + 1] ~= layouts[1] then
      fail("ValueError", called() .. ": rank 0 saves " .. layouts[1] .. "; rank " .. rank .. " saves " .. layouts[rank + 1] .. ", expected the same on all")
    end
  end
  -- An order that all ranks have. Rank 0's values are saved, and its copies of tensors that are no fields.
  save_file(path, entries, notes, function(new, start)
    for i = 1, #entries do
      local e = entries[i]
      if e.f then
        local rows, first = collect_rows(grid, e.x, e.f)
        write_parts(new, { start + e.offset + (first - 1) * (e.bytes // e.shape[1]) }, { rows })
      elseif grid.rank == 0 then
        write_parts(new, { start + e.offset }, { contiguous(convert(e.x, "cpu")) })
      end
    end
  end)
end

function M.load(grid, path, halo, device)
  local tensors, notes, fields, tree = nil, nil, {}, {}
  together(function()
    tensors, notes = load_tensors(path)
    local leaves = list_sorted(tensors)
    for i = 1, #leaves do
      local name, x = leaves[i][1], leaves[i][2]
      local shape, saved = sizes_of(x), notes["tide.halo." .. name]
      if saved or not notes["tide.cart"] and #shape == #grid.dims then
        local u = grids.field(grid, shape, halo == nil and saved and integers_of(saved) or halo or 0, x.dtype, device)
        local f = grids.look(grid, u)
        grids.inside(grid, u):copy_(region(x, f.first, f.count))
        fields[#fields + 1] = u
        set_leaf(tree, name, u)
      else
        set_leaf(tree, name, device ~= nil and convert(x, device) or x)
      end
    end
    leaves = list_sorted(notes)
    for i = 1, #leaves do
      if find(leaves[i][1], "tide.") ~= 1 then set_leaf(tree, leaves[i][1], read_value_text(leaves[i][2])) end
    end
  end)
  for i = 1, #fields do grids.exchange(grid, fields[i], false, true) end
  return tree
end

-- ---- trees of single ranks ----

function M.rank_save(path, tree)
  local bytes
  local sizes = together(function()
    bytes = encode(tree)
    return #bytes
  end)
  local entries = {}
  for i = 1, #sizes do entries[i] = { name = "rank." .. i - 1, dtype = "U8", shape = { sizes[i] }, each = 1, bytes = sizes[i] } end
  save_file(path, entries, { { "tide.ranks", #sizes .. "" } }, function(new, start)
    write_parts(new, { start + entries[rank_of() + 1].offset }, { bytes })
  end)
end

function M.rank_load(path)
  local tree
  together(function()
    local own, saved = "rank." .. rank_of(), 0
    local _, all = list_names(path)
    while all["rank." .. saved] do saved = saved + 1 end
    if saved ~= world_size() then
      reject("ValueError", path, "the trees of " .. saved .. " ranks", world_size()
        .. ", one for each rank of now; grid:save writes fields for any number of ranks")
    end
    tree = decode(bytes_of(load_tensors(path, { names = { own } })[own]))
  end)
  return tree
end
