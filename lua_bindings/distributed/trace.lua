-- tide.distributed.trace: one timeline of all ranks.
--
-- Each rank records a timeline of its own, and first sends short messages to and fro with rank 0 between marks. Half of
-- the fastest way there and back is the moment of the mark between them on the other clock (Cristian, 1989). Rank 0
-- shifts the timelines to the earliest clock and joins them.

local M = ...
local temporary_file, read_file, mark_time, move_events = use("distributed/distributed_grid.c", "temporary_file", "read_file", "mark_time", "move_events")
local make_file, write_parts, rename_file, remove_file = use("distributed/distributed_grid.c", "make_file", "write_parts", "rename_file", "remove_file")
local trace_one, mark, make_tensor = public("tide.cuda.profiler", "trace"), public("tide.cuda.nvtx", "mark"), public("tide", "tensor")
local rank_of, world_size, send, recv, gather = public("tide.distributed", "get_rank", "get_world_size", "send", "recv", "gather_object")
local make_group = public("tide.distributed", "new_group")

local rounds = 20
local own_group -- its messages meet none of a script's

local function mark_name(rank, round, what) return "clock of rank " .. rank .. ": " .. what .. " " .. round end

local function meet(x, rank, size)
  local to_group = { group = own_group }
  for r = 1, size - 1 do
    for k = 1, rounds do
      if rank == 0 then
        mark(mark_name(r, k, "sent"))
        send(x, r, to_group)
        recv(x, r, to_group)
        mark(mark_name(r, k, "returned"))
      elseif rank == r then
        recv(x, 0, to_group)
        mark(mark_name(r, k, "received"))
        send(x, 0, to_group)
      end
    end
  end
end

-- Microseconds to add to times of the rank.
local function offset_of(texts, rank)
  local best, offset
  for k = 1, rounds do
    local sent, returned = mark_time(texts[1], mark_name(rank, k, "sent")), mark_time(texts[1], mark_name(rank, k, "returned"))
    local received = mark_time(texts[rank + 1], mark_name(rank, k, "received"))
    if sent and returned and received and (not best or returned - sent < best) then
      best, offset = returned - sent, (sent + returned) / 2 - received
    end
  end
  if not offset then warn("trace: the marks of rank " .. rank .. " were lost: its clock is not aligned") end
  return offset or 0
end

local function join_all(texts)
  local offsets, least, parts = { 0 }, 0, {}
  for r = 1, #texts - 1 do
    offsets[r + 1] = offset_of(texts, r)
    if offsets[r + 1] < least then least = offsets[r + 1] end
  end
  for r = 0, #texts - 1 do parts[r + 1] = move_events(texts[r + 1], r, offsets[r + 1] - least) end
  return '{"displayTimeUnit":"ns","traceEvents":[' .. join(parts, ",") .. "\n]}\n"
end

local function finish(path, own, ...)
  local texts = rank_of() == 0 and {} or nil
  gather(read_file(own), texts, 0)
  if texts then
    local whole = join_all(texts)
    make_file(path .. ".tmp", path, #whole)
    write_parts(path .. ".tmp", { 0 }, { whole })
    rename_file(path .. ".tmp", path)
  end
  return ...
end

function M.trace_ranks(fn, path, events)
  local rank, size, x = rank_of(), world_size(), make_tensor(0)
  own_group = own_group or size > 1 and make_group() or nil
  local own = temporary_file()
  local _ <close> = setmeta({}, { __close = function() remove_file(own) end })
  return finish(path, own, trace_one(function()
    meet(x, rank, size)
    return fn()
  end, own, { events = events }))
end
