-- Device memory: what a person reads of it, and who observes its end.

local M = ...
local bytes_text = use("device/memory_stats.c", "bytes_text")
local watch_failures = use("device/memory_scope.c", "watch_failures")

-- ---- memory_summary ----

-- The counters of a device as a table: one line for each figure with what it is now, its peak and its sums; below it,
-- unless it is to be brief, the parts of the large and of the small pool. The lines of the script that hold most stand at
-- the end.

local rule = "+------------------------+-------------+-------------+-------------+-------------+\n"
local bytes = { "allocated memory", "allocated_bytes", "active memory", "active_bytes", "requested memory", "requested_bytes",
  "reserved memory", "reserved_bytes", "non-releasable memory", "inactive_split_bytes" }
local counts = { "allocations", "allocation", "active blocks", "active", "segments", "segment", "non-releasable blocks",
  "inactive_split" }

local function line(name, now, peak, allocated, freed)
  return "| " .. pad(name, -22) .. " | " .. pad(now, 11) .. " | " .. pad(peak, 11) .. " | " .. pad(allocated, 11) .. " | "
    .. pad(freed, 11) .. " |\n"
end

local function counter(stats, name, key, show)
  return line(name, show(stats[key .. ".current"]), show(stats[key .. ".peak"]), show(stats[key .. ".allocated"]),
    show(stats[key .. ".freed"]))
end

local function counters(stats, list, show, brief)
  local rows = rule
  for i = 1, #list, 2 do
    rows = rows .. counter(stats, list[i], list[i + 1] .. ".all", show)
    if not brief then
      rows = rows .. counter(stats, "    of large blocks", list[i + 1] .. ".large_pool", show)
        .. counter(stats, "    of small blocks", list[i + 1] .. ".small_pool", show)
    end
  end
  return rows
end

local function plural(n, noun) return n .. " " .. noun .. (n == 1 and "" or "s") end

-- stats: as memory_stats gives them; sites: the lines that hold most.
function M.summary(device, brief, stats, sites)
  local held = #sites > 0 and "held most by\n" or ""
  for i = 1, #sites do
    local site = sites[i]
    held = held .. "  " .. pad(bytes_text(site.bytes), 11) .. " in " .. plural(site.blocks, "block") .. "  "
      .. (site.line ~= "" and site.line or "(no script line)") .. "\n"
  end
  return "memory of cuda:" .. device .. ": " .. plural(stats.num_ooms, "out-of-memory error") .. ", "
    .. plural(stats.num_alloc_retries, "retried allocation") .. "\ndriver: " .. stats.num_device_alloc .. " allocations, "
    .. stats.num_device_free .. " releases, " .. stats.num_sync_all_streams .. " waits for the device\n" .. rule
    .. line("", "now", "peak", "allocated", "freed") .. counters(stats, bytes, bytes_text, brief)
    .. counters(stats, counts, text, brief) .. counter(stats, "oversize allocations", "oversize_allocations", text)
    .. counter(stats, "oversize segments", "oversize_segments", text) .. rule .. held
end

-- ---- observers of failed allocations, behind one of core's for each Lua state ----

local observers, last, watch = {}, 0, nil

-- Each stands under a number of its own: a function may be there twice.
function M.on_oom(fn)
  watch = watch or watch_failures()
  last = last + 1
  local i = last
  observers[i] = fn
  return function() observers[i] = nil end
end

-- Runs on the thread that failed: all but those that another one takes out meanwhile, or adds.
function M.run_observers(device, requested, figures)
  for i = 1, last do
    local ok, message = true, nil
    if observers[i] then ok, message = try(observers[i], device, requested, figures) end
    if not ok then warn("on_oom: an observer failed: " .. text(message)) end
  end
end
