-- tide.save_gif: frames to bytes, which gif.c writes.

local M = ...
local colors = use "plot/colors"
local write_gif = use("data/gif.c", "write_gif")
local dimensions, size_of, convert, amin, amax, isnan, isfinite = public("Tensor", "dim", "size", "to", "amin", "amax", "isnan", "isfinite")
local item, clamp, mul, sub_, round = public("Tensor", "item", "clamp", "mul", "sub", "round")
local stack, where = public("tide", "stack", "where")

local function refuse_frames(frames)
  fail("ShapeError", "save_gif: frames: got " .. describe(frames) .. ", expected [n, h, w] or [n, h, w, 3] with no size 0, or a list of such pictures")
end

-- Bytes from 0 to 255 of values from low to high; NaN is low.
local function to_bytes(x, low, high)
  if low == nil or high == nil or low ~= low or high ~= high then low, high = 0, 1 end
  local span = high - low
  x = clamp(mul(sub_(x, low), 255 / (span == 0 and 1 or span)), 0, 255)
  return convert(round(where(isnan(x), 0, x)), "uint8")
end

-- The limits of the values, without infinities and NaN.
local function limits(x, opts)
  local low, high = opts.vmin, opts.vmax
  local good = isfinite(x)
  if low == nil then low = item(amin(where(good, x, 1 / 0))) end
  if high == nil then high = item(amax(where(good, x, -1 / 0))) end
  if low == 1 / 0 or high == -1 / 0 then return 0, 1 end
  return low, high
end

local function check(opts, h, w)
  if not (opts.fps > 0 and opts.fps <= 100) then
    fail("ValueError", "save_gif: fps: got " .. text(opts.fps) .. ", expected more than 0, at most 100")
  end
  if opts.loop > 65536 then fail("ValueError", "save_gif: loop: got " .. text(opts.loop) .. ", expected 0 (without end) to 65536 times") end
  local scale = opts.scale
  if scale < 1 or scale > 64 or h * scale > 65535 or w * scale > 65535 then
    fail("ValueError", "save_gif: scale: got " .. text(scale) .. " for pictures of " .. h .. " by " .. w .. ", expected 1 to 64, and at most 65535 pixels a side")
  end
end

-- A simulation that keeps its tensor, not a copy, in each step has a list of one tensor, or of two that take turns.
local function warn_of_one(frames)
  local seen, n = {}, 0
  for _, x in next, frames do
    if not seen[x] then seen[x], n = true, n + 1 end
  end
  if n < 3 and #frames > 4 then warn("save_gif: all " .. #frames .. " frames are " .. (n == 1 and "one tensor" or "two tensors") .. ": keep x:clone() of one that changes") end
end

function M.save(path, frames, opts)
  if type(frames) == "table" and not getmeta(frames) then
    warn_of_one(frames)
    frames = stack(frames)
  end
  local of = getmeta(frames) == class "tide.Tensor" and text(frames.dtype)
  if not of then refuse(frames, "frames", "a tensor, or a list of pictures") end
  if find(of, "complex") then fail("DtypeError", "save_gif: frames: got " .. describe(frames) .. ", expected real values: x:abs()") end
  local n = dimensions(frames)
  for d = 1, n do
    if size_of(frames, d) == 0 then refuse_frames(frames) end
  end
  if n ~= 3 and not (n == 4 and size_of(frames, 4) == 3) then refuse_frames(frames) end
  check(opts, size_of(frames, 2), size_of(frames, 3))
  local palette, given = nil, opts.vmin ~= nil or opts.vmax ~= nil
  if n == 3 then
    palette = {}
    local color = colors.color_map(opts.cmap)
    for i = 0, 255 do palette[i + 1] = color(i / 255) end
  end
  local x = frames
  if of == "tide.bool" then x = mul(convert(x, "uint8"), 255)
  elseif of ~= "tide.uint8" or given then
    x = convert(x, of == "tide.float64" and "float64" or "float32")
    if n == 3 then x = to_bytes(x, limits(x, opts)) else x = to_bytes(x, opts.vmin or 0, opts.vmax or 1) end
  end
  write_gif(path, convert(x, { device = "cpu" }), palette, opts.fps, opts.loop, opts.scale)
end
