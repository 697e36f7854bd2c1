-- tide.cuda.profiler: the function that is recorded, and the table of what took its time.
--
-- A recording that is to be closed holds it while the function runs: whatever ends the function ends it too. A function
-- that ends well waits for the devices first, so that a failure of its work is raised as it would be without a recording.

local M = ...
local end_trace, begin_recording, read_summary = use("device/profiler.c", "end_trace", "begin_recording", "read_summary")
local most_rows = 40

local function traced(recording, ...)
  end_trace(recording)
  return ...
end

function M.trace(fn, path, events)
  local recording <close> = begin_recording("profiler.trace", path, events)
  return traced(recording, fn())
end

-- ---- the table ----

local function per_second(n, ms) return ms > 0 and n / ms * 1e-6 or 0.0 end

-- The end of a text that is too long is what tells a line from others, the beginning a kernel's name.
local function cell(text, width, keep_end)
  local n = rawlen(text)
  if n > width then text = keep_end and ".." .. sub(text, n - width + 3) or sub(text, 1, width - 2) .. ".." end
  return pad(text, -width) .. "  "
end

local function row_text(line, op, kernel, device, calls, total, mean, percent, speed, host)
  return cell(line, 32, true) .. cell(op, 16) .. cell(kernel, 36) .. pad(device, -7) .. " " .. pad(calls, 7) .. " "
    .. pad(total, 11) .. " " .. pad(mean, 11) .. " " .. pad(percent, 6) .. " " .. pad(speed, 8) .. " " .. pad(host, 9) .. "\n"
end

local function text_or(value, otherwise) return value ~= "" and value or otherwise end

local function finish_row(r)
  r.device = r.device < 0 and "cpu" or "cuda:" .. r.device
  r.mean_us, r.min_us, r.max_us = 1000 * r.total_ms / r.calls, 1000 * r.min_ms, 1000 * r.max_ms
  r.min_ms, r.max_ms, r.gb_per_s = nil, nil, per_second(r.bytes, r.total_ms)
  local speed = r.bytes ~= 0 and r.total_ms > 0 and fixed(r.gb_per_s, 1) or "-"
  return row_text(text_or(r.line, "(unknown)"), text_or(r.op, "-"), text_or(r.kernel, "-"), r.device, r.calls,
    fixed(r.total_ms, 3), fixed(r.mean_us, 1), fixed(r.percent, 1), speed, fixed(r.host_ms, 3))
end

local function finish_copies(c, name)
  c.gb_per_s = per_second(c.bytes, c.ms)
  if c.calls == 0 then return "" end
  return "copies " .. name .. ": " .. c.calls .. ", " .. fixed(c.bytes / 1048576, 3) .. " MiB in " .. fixed(c.ms, 3) .. " ms, "
    .. fixed(c.gb_per_s, 1) .. " GB/s\n"
end

local function finish_device(d, wall)
  local both = d.kernel_ms + d.copy_ms - d.busy_ms
  d.idle_ms = wall - d.busy_ms
  return ": busy " .. fixed(d.busy_ms, 3) .. " ms (" .. fixed(wall > 0 and 100 * d.busy_ms / wall or 0, 1) .. "%), idle "
    .. fixed(d.idle_ms, 3) .. " ms; kernels " .. fixed(d.kernel_ms, 3) .. " ms, copies " .. fixed(d.copy_ms, 3) .. " ms, "
    .. fixed(both > 0 and both or 0, 3) .. " ms of them at once\n"
end

-- Adds what can be worked out of the rest, and prints the text.
local function summed_up(recording, ...)
  local t = read_summary(recording)
  local said = row_text("line", "op", "kernel", "device", "calls", "total ms", "mean us", "%", "GB/s", "host ms")
  for i = 1, #t.rows do
    local row = finish_row(t.rows[i])
    if i <= most_rows then said = said .. row end
  end
  if #t.rows > most_rows then said = said .. "... and " .. #t.rows - most_rows .. " more rows\n" end
  local devices = t.devices
  t.devices = {}
  for d = 0, devices.last do
    if devices[d] then
      local name = "cuda:" .. d
      said, t.devices[name] = said .. name .. finish_device(devices[d], t.wall_ms), devices[d]
    end
  end
  said = said .. "host: " .. fixed(t.host_ms, 3) .. " ms of " .. fixed(t.wall_ms, 3) .. " ms in " .. t.operations
    .. " operations, " .. fixed(t.wait_ms, 3) .. " ms waiting for devices\n" .. finish_copies(t.copies.to_device, "to devices")
    .. finish_copies(t.copies.to_host, "to the host") .. finish_copies(t.copies.between, "on and between devices")
  if t.source ~= "" then
    said = said .. "device times: " .. t.source .. (t.note ~= "" and ", because " .. t.note or "") .. "\n"
  end
  if t.lost ~= 0 then said = said .. "lost: " .. t.lost .. " pieces of work\n" end
  print_text(said)
  return t, ...
end

function M.summary(fn, ...)
  local recording <close> = begin_recording("profiler.summary")
  return summed_up(recording, fn(...))
end
