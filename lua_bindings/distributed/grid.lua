-- tide.distributed.cart: ranks in a grid, and fields that are cut over them.
--
-- A grid is {dims, periodic, coords, rank, size, group, fields, compared}. Grids have one group for their messages, which meet no
-- others: an MPI has few communicators, and they are never freed. All ranks exchange in the order of their program, so
-- messages of two grids do not mix.
-- A field is a tensor of this rank's piece with a halo on every side; grid.fields, whose keys are weak, knows of each
-- {sizes, halo, first, count}: the global sizes, and the first global place and the number of places of the piece.
--
-- A place of the halo is the copy of a place that another rank owns, or lies outside of the whole field. The latter are
-- owned by the rank whose piece they touch, and are sent along like the rest of its border. So the halo has the same
-- values in every cut of the field.
--
-- An exchange is a list of rounds, a round a list of directions: -1, 0 or 1 in each dimension. In the direction's
-- dimensions the places next to the border travel; in the others all owned ones. A blocking exchange goes dimension by
-- dimension: a later one sends what the ones before have filled, so corners take no messages of their own. An
-- asynchronous one, which must not wait in between, sends to diagonal neighbors, too, in one round.
--
-- Invariant: both sides of a message know its size; its tag is the direction of its travel.

local M = ...
local new_object, region, size_of_dtype, copy_region = use("distributed/distributed_grid.c", "new_object", "region", "size_of_dtype", "copy_region")
local is_capturing, new_buffer, start_message, pack = use("distributed/distributed_grid.c", "is_capturing", "new_buffer", "start_message", "pack")
local finish_message, close_buffer, is_message_done = use("distributed/distributed_grid.c", "finish_message", "close_buffer", "is_message_done")
local sizes_of = use("tensor/compose.c", "sizes_of")
local rank_of, world_size, make_group, broadcast, all_gather = public("tide.distributed", "get_rank", "get_world_size", "new_group", "broadcast", "all_gather_object")
local make_zeros, make_tensor = public("tide", "zeros", "tensor")

-- "{2, 3}"
local function list_text(list)
  local texts = {}
  for i = 1, rawlen(list) do texts[i] = text(list[i]) end
  return "{" .. join(texts, ", ") .. "}"
end

-- The integers of a list, each at least `least`; n: how many there have to be, or nil.
local function check_integers(list, name, n, least)
  if type(list) ~= "table" then refuse(list, name, "a table of integers") end
  local out = {}
  for i = 1, rawlen(list) do
    local value = rawget(list, i)
    if not is_integer(value) or value < least then
      reject("ValueError", name .. "[" .. i .. "]", text(value), "an integer of at least " .. least)
    end
    out[i] = value
  end
  if n and #out ~= n then
    reject("ValueError", name, #out .. " integers", "one for each of the " .. n .. " dimensions of the grid")
  end
  return out
end

-- ---- places ----

function M.rank_at(grid, coords)
  coords = check_integers(coords, "coords", #grid.dims, -1099511627776)
  local rank = 0
  for d = 1, #grid.dims do
    local n, at = grid.dims[d], coords[d]
    if grid.periodic[d] then at = at % n end
    if at < 0 or at >= n then return nil end
    rank = rank * n + at
  end
  return rank
end

function M.coords_of(grid, rank)
  local coords = {}
  for d = #grid.dims, 1, -1 do
    coords[d] = rank % grid.dims[d]
    rank = rank // grid.dims[d]
  end
  return coords
end

-- The rank in a direction; nil: none.
local function neighbor(grid, direction)
  local coords = {}
  for d = 1, #grid.dims do coords[d] = grid.coords[d] + direction[d] end
  return M.rank_at(grid, coords)
end

local function along(grid, dim, k)
  local direction = {}
  for d = 1, #grid.dims do direction[d] = d == dim and k or 0 end
  return direction
end

local function check_dim(grid, dim)
  if not is_integer(dim) or dim < 1 or dim > #grid.dims then
    reject("IndexError", "dim", text(dim), "1 to " .. #grid.dims)
  end
  return dim
end

-- A dimension, or a list of them, as the script counts.
local function read_dims(grid, dims)
  local out = {}
  if is_integer(dims) then dims = { dims } end
  if type(dims) ~= "table" then refuse(dims, "dims", "a dimension or a table of them") end
  for i = 1, rawlen(dims) do
    local dim = rawget(dims, i)
    out[i] = check_dim(grid, is_integer(dim) and dim + 1 - index_base() or dim)
  end
  return out
end

function M.shift(grid, dim, k)
  check_dim(grid, dim)
  return neighbor(grid, along(grid, dim, -k)), neighbor(grid, along(grid, dim, k))
end

-- Prime factors, the largest first, each to the smallest of the chosen dims.
local function choose_dims(dims, size)
  local fixed, free = 1, {}
  for d = 1, #dims do
    if dims[d] == 0 then free[#free + 1] = 1 else fixed = fixed * dims[d] end
  end
  if size % fixed ~= 0 or #free == 0 and fixed ~= size then
    reject("ValueError", "dims", list_text(dims) .. " for " .. size .. " ranks", "a product of "
      .. (#free > 0 and "the others that divides it" or size) .. "; 0 is chosen")
  end
  local rest, factors, p = size // fixed, {}, 2
  while rest > 1 do
    while rest % p == 0 do
      factors[#factors + 1], rest = p, rest // p
    end
    p = p + 1
  end
  for i = #factors, 1, -1 do
    local least = 1
    for k = 2, #free do if free[k] < free[least] then least = k end end
    free[least] = free[least] * factors[i]
  end
  local out = {}
  for d = 1, #dims do
    local most = 1
    for k = 2, #free do if free[k] > free[most] then most = k end end
    out[d] = dims[d]
    if dims[d] == 0 then out[d], free[most] = free[most], 0 end
  end
  return out
end

-- Ranks that arrange themselves in another way than rank 0 would wait for each other.
local function check_alike(grid)
  local own = { #grid.dims }
  for d = 1, 8 do
    own[d + 1] = grid.dims[d] or 0
    own[d + 9] = grid.periodic[d] and 1 or 0
  end
  local first = make_tensor(own)
  broadcast(first, 0)
  for i = 1, #own do
    if first[i]:item() ~= own[i] then
      fail("ValueError", called() .. ": got dims " .. list_text(grid.dims) .. " and periodic " .. list_text(grid.periodic)
        .. " on rank " .. grid.rank .. ", expected the same as on rank 0")
    end
  end
end

local group -- of the messages of all grids

function M.new(dims, periodic)
  if dims == nil then refuse(dims, "dims", "a table of integers") end
  local given = check_integers(dims, "dims", nil, 0)
  if #given < 1 or #given > 8 then reject("ValueError", "dims", #given .. " integers", "1 to 8") end
  local grid = { size = world_size(), rank = rank_of(), periodic = {}, compared = {}, fields = setmeta({}, { __mode = "k" }) }
  grid.dims = choose_dims(given, grid.size)
  if type(periodic) == "table" and rawlen(periodic) ~= #given then
    reject("ValueError", "periodic", rawlen(periodic) .. " values", "one for each of the " .. #given .. " dimensions")
  end
  if periodic == nil then periodic = false end
  for d = 1, #given do
    local value = periodic
    if type(periodic) == "table" then value = rawget(periodic, d) end
    if type(value) ~= "boolean" then refuse(value, "periodic", "true, false or a table of them") end
    grid.periodic[d] = value
  end
  grid.coords = M.coords_of(grid, grid.rank)
  check_alike(grid)
  group = group or grid.size > 1 and make_group()
  grid.group = group
  return new_object(grid)
end

function M.sub(grid, dims)
  local varies, lists, order = {}, {}, {}
  dims = read_dims(grid, dims)
  for i = 1, #dims do varies[dims[i]] = true end
  for rank = 0, grid.size - 1 do
    local coords, key = M.coords_of(grid, rank), {}
    for d = 1, #coords do key[d] = varies[d] and "" or coords[d] .. "" end
    key = join(key, ",")
    if not lists[key] then
      lists[key] = {}
      order[#order + 1] = lists[key]
    end
    lists[key][#lists[key] + 1] = rank
  end
  local own
  for i = 1, #order do own = make_group(order[i]) or own end -- every rank is in one of them
  return own
end

-- ---- fields ----

local owners = setmeta({}, { __mode = "k" }) -- the grid of each field

-- Is it a field of another grid?
function M.is_foreign(grid, u) return owners[u] ~= nil and owners[u] ~= grid end

-- The first place, from 1, and the number of places of the piece at a coordinate.
local function piece(size, ranks, at)
  local each, more = size // ranks, size % ranks
  return at * each + (at < more and at or more) + 1, each + (at < more and 1 or 0)
end

-- What is known of the piece of the rank at these coordinates.
function M.piece(grid, sizes, coords)
  local first, count = {}, {}
  for d = 1, #sizes do first[d], count[d] = piece(sizes[d], grid.dims[d], coords[d]) end
  return first, count
end

function M.field(grid, sizes, halo, dtype, device)
  local n = #grid.dims
  local f = { sizes = check_integers(sizes, "sizes", n, 1), halo = {} }
  if halo == nil then halo = 1 end
  for d = 1, n do f.halo[d] = halo end
  if type(halo) == "table" then f.halo = check_integers(halo, "halo", n, 0) else check_integers(f.halo, "halo", n, 0) end
  f.first, f.count = M.piece(grid, f.sizes, grid.coords)
  local whole = {}
  for d = 1, n do
    local least = f.sizes[d] // grid.dims[d]
    if least < f.halo[d] or least < 1 then
      reject("ShapeError", "sizes[" .. d .. "]", f.sizes[d] .. " for " .. grid.dims[d] .. " ranks, which is " .. least
        .. " for the last one", "at least 1, and the halo of " .. f.halo[d])
    end
    whole[d] = f.count[d] + 2 * f.halo[d]
  end
  f.local_sizes = whole
  local u = make_zeros(whole, { dtype = dtype, device = device })
  grid.fields[u], owners[u] = f, grid
  return u
end

-- What the grid knows of the field.
function M.look(grid, u, name)
  local f = u ~= nil and grid.fields[u]
  if not f and M.is_foreign(grid, u) then
    reject("ValueError", (name or "field"), "a field of another grid", "one of this grid")
  end
  if not f then refuse(u, name or "field", "a field, which grid:field has made; copy other tensors to one") end
  local sizes = sizes_of(u)
  for d = 1, #f.local_sizes do
    if sizes[d] ~= f.local_sizes[d] or #sizes ~= #f.local_sizes then
      reject("ShapeError", (name or "field"), "sizes " .. list_text(sizes), "the " .. list_text(f.local_sizes)
        .. " that grid:field has given it")
    end
  end
  return f
end

function M.inside(grid, u)
  local f = M.look(grid, u)
  local first = {}
  for d = 1, #f.halo do first[d] = f.halo[d] + 1 end
  return region(u, first, f.count)
end

function M.range(grid, u, dim)
  local f, base = M.look(grid, u), index_base() - 1
  check_dim(grid, dim)
  return f.first[dim] + base, f.first[dim] + f.count[dim] - 1 + base
end

-- ---- halos ----

-- Where the regions of a direction begin: of what is sent there, and of what comes from there; and their sizes. `before`:
-- the dimensions whose halos are filled already, or nil; faces: without the places outside of the whole field.
local function regions(grid, f, direction, width, before, faces)
  local out, into, count = {}, {}, {}
  for d = 1, #direction do
    local h, n, o = f.halo[d], f.count[d], direction[d]
    local w = width[d] or h
    if o == 0 then
      local low = grid.lower[d] and (before and before[d] and w or 0) or faces and 0 or h
      local high = grid.upper[d] and (before and before[d] and w or 0) or faces and 0 or h
      out[d], into[d], count[d] = h + 1 - low, h + 1 - low, n + low + high
    else
      out[d], into[d], count[d] = o < 0 and h + 1 or h + n - w + 1, o < 0 and h + 1 - w or h + n + 1, w
    end
  end
  return out, into, count
end

local function numel_of(count)
  local numel = 1
  for d = 1, #count do numel = numel * count[d] end
  return numel
end

local function tag_of(direction, sign)
  local tag = 0
  for d = 1, #direction do tag = tag * 3 + direction[d] * sign + 1 end
  return tag
end

-- Starts a round: copies what stays here, then receives and sends. Returns its messages.
local function start_round(grid, x, directions, before)
  local messages = {}
  local parts = {}
  for i = 1, #directions do
    local direction = directions[i]
    local peer = neighbor(grid, direction)
    if peer == grid.rank then
      -- What comes from there is what the opposite direction sends.
      local opposite = {}
      for d = 1, #direction do opposite[d] = -direction[d] end
      for k = 1, #x.fields do
        local _, into, count = regions(grid, x.known[k], direction, x.width[k], before, x.faces)
        local out = regions(grid, x.known[k], opposite, x.width[k], before, x.faces)
        if numel_of(count) > 0 then copy_region(x.fields[k], out, into, count) end
      end
    elseif peer then
      local p = { plan = {}, fields = {}, bytes = 0, peer = peer, direction = direction }
      for k = 1, #x.fields do
        local u = x.fields[k]
        local out, into, count = regions(grid, x.known[k], direction, x.width[k], before, x.faces)
        local numel = numel_of(count)
        if numel > 0 then
          local size = size_of_dtype(u)
          local at = (p.bytes + size - 1) // size * size
          p.plan[#p.plan + 1], p.fields[#p.fields + 1] = { u = u, out = out, into = into, count = count, at = at }, u
          p.bytes = at + numel * size
        end
      end
      if p.bytes > 0 then parts[#parts + 1] = p end
    end
  end
  if #parts > 0 and is_capturing() then
    fail("StateError", called() .. ": a graph is being captured, which cannot hold messages to other ranks; capture the work between exchanges")
  end
  for i = 1, #parts do
    local p = parts[i]
    p.buffer = new_buffer(p.bytes, p.plan[1].u)
    p.work = start_message(false, p.buffer, grid.group, p.peer, tag_of(p.direction, -1), p.fields)
    messages[i] = p
  end
  for i = 1, #parts do
    local p = parts[i]
    local buffer = new_buffer(p.bytes, p.plan[1].u)
    for k = 1, #p.plan do pack(p.plan[k].u, p.plan[k].out, p.plan[k].count, buffer, p.plan[k].at) end
    messages[#messages + 1] = { buffer = buffer, work = start_message(true, buffer, grid.group, p.peer, tag_of(p.direction, 1), p.fields) }
  end
  return messages
end

local function finish_round(messages)
  for i = 1, #messages do
    local p = messages[i]
    if p.work then finish_message(p.work) end
    p.work = nil
    for k = 1, p.plan and #p.plan or 0 do pack(p.plan[k].u, p.plan[k].into, p.plan[k].count, p.buffer, p.plan[k].at, true) end
    p.plan = nil
    if p.buffer then close_buffer(p.buffer) end
    p.buffer = nil
  end
end

-- Every direction in these dimensions except no move at all.
local function all_directions(grid, dims)
  local list = { along(grid, 0, 0) }
  for i = 1, #dims do
    for k = 1, #list do
      for o = -1, 1, 2 do
        local more = { unpack(list[k], 1, #grid.dims) }
        more[dims[i]] = o
        list[#list + 1] = more
      end
    end
  end
  return { unpack(list, 2, #list) }
end

-- The lists of fields, of what is known of them, and of their widths along each dimension.
local function read_fields(grid, fields, width)
  local x = { fields = {}, known = {}, width = {} }
  if type(fields) == "table" then
    for i = 1, rawlen(fields) do
      x.fields[i] = rawget(fields, i)
      x.known[i] = M.look(grid, x.fields[i], "fields[" .. i .. "]")
    end
  else
    x.fields[1], x.known[1] = fields, M.look(grid, fields, "fields")
  end
  for i = 1, #x.fields do
    x.width[i] = {}
    for d = 1, width and #grid.dims or 0 do
      local h = x.known[i].halo[d]
      if not is_integer(width) or width < 0 or width > h then
        reject("ValueError", "width", text(width), "an integer from 0 to the halo, which is " .. h
          .. " along dimension " .. d)
      end
      x.width[i][d] = width
    end
    if device_of(x.fields[i]) ~= device_of(x.fields[1]) then
      fail("DeviceError", called() .. ": fields[" .. i .. "]: it is on another device than the first, expected the same")
    end
  end
  return x
end

-- Ranks that cut fields of other sizes would fill halos with values of the wrong places. All ranks compare theirs once
-- for each set of sizes: at the first exchange, which all of them call.
local function check_sizes(grid, x)
  local texts, given = {}, {}
  for i = 1, #x.known do texts[i] = list_text(x.known[i].sizes) .. " with a halo of " .. list_text(x.known[i].halo) end
  local own = join(texts, ", ")
  if grid.compared[own] or grid.size == 1 or is_capturing() then return end
  all_gather(given, own)
  for i = 1, grid.size do
    if given[i] ~= own then
      reject("ShapeError", "fields", own .. " on rank " .. grid.rank .. " and " .. given[i] .. " on rank "
        .. i - 1, "the same on all: grid:field takes the sizes of the whole field")
    end
  end
  grid.compared[own] = true
end

function M.exchange(grid, fields, async, corners, dims, width)
  local x = read_fields(grid, fields, width)
  check_sizes(grid, x)
  local chosen = dims and read_dims(grid, dims) or {}
  for d = 1, dims and 0 or #grid.dims do chosen[d] = d end
  if not grid.lower then
    grid.lower, grid.upper = {}, {}
    for d = 1, #grid.dims do
      grid.lower[d], grid.upper[d] = M.shift(grid, d, 1)
    end
  end
  x.faces = not corners
  if corners and not async then
    local before = {}
    for i = 1, #chosen do
      finish_round(start_round(grid, x, { along(grid, chosen[i], -1), along(grid, chosen[i], 1) }, before))
      before[chosen[i]] = true
    end
    return
  end
  local directions = {}
  for i = 1, corners and 0 or #chosen do
    directions[2 * i - 1], directions[2 * i] = along(grid, chosen[i], -1), along(grid, chosen[i], 1)
  end
  local messages = start_round(grid, x, corners and all_directions(grid, chosen) or directions)
  if not async then return finish_round(messages) end
  return new_object({ messages = messages }, true)
end

function M.exchange_wait(exchange)
  finish_round(exchange.messages)
  exchange.messages = {}
end

function M.exchange_is_completed(exchange)
  for i = 1, #exchange.messages do
    if not is_message_done(exchange.messages[i].work) then return false end
  end
  return true
end
