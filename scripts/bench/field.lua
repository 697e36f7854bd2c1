-- field.lua: borders, windows, convolutions, other sizes and values between points on cuda:0, billions of elements of the
-- result a second between two events; convolutions in TFLOP/s. The peer is field_torch.py.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local cuda = {device = "cuda"}
local function rate(case, f, reps)
  local count = f():numel()
  bench.out("field_" .. case, count / bench.device_ms(f, reps) / 1e6, "G/s")
end

local x = tide.randn(32, 64, 256, 256, cuda)
rate("pad", function() return x:pad{1, 1, 1, 1} end)
rate("pad_reflect", function() return x:pad({3, 3, 3, 3}, {mode = "reflect"}) end)
rate("max_pool2", function() return x:max_pool2d(2) end)
rate("max_pool3_stride2", function() return x:max_pool2d(3, 2, 1) end)
rate("max_pool3", function() return x:max_pool2d(3, 1, 1) end)
rate("max_pool2_places", function() return (x:max_pool2d(2, 2, 0, {return_indices = true})) end)
rate("avg_pool2", function() return x:avg_pool2d(2) end)
rate("avg_pool3", function() return x:avg_pool2d(3, 1, 1) end)
for _, mode in ipairs{"nearest", "bilinear", "bicubic"} do
  rate(mode .. "_up2", function() return tide.interpolate(x, {scale_factor = 2, mode = mode}) end, 5)
  rate(mode .. "_down2", function() return tide.interpolate(x, {scale_factor = 0.5, mode = mode}) end)
end
rate("area_down2", function() return tide.interpolate(x, {scale_factor = 0.5, mode = "area"}) end)
local grid = tide.rand(32, 256, 256, 2, cuda) * 2 - 1
local smooth = tide.affine_grid(tide.randn(32, 2, 3, cuda) * 0.3, {32, 64, 256, 256})
for _, mode in ipairs{"bilinear", "nearest", "bicubic"} do
  rate("grid_sample_" .. mode, function() return tide.grid_sample(x, smooth, {mode = mode}) end)
end
rate("grid_sample_anywhere", function() return tide.grid_sample(x, grid) end)
x, grid, smooth = nil, nil, nil

local function conv(case, dtype, batch, channels, results, height, width, size, options)
  local a = tide.randn(batch, channels, height, width, cuda):to(dtype)
  local w = tide.randn(results, channels // (options.groups or 1), size, size, cuda):to(dtype)
  local y = a:conv2d(w, options)
  local flop = 2 * y:numel() * w:numel() / results
  bench.out(("field_%s_%s"):format(case, dtype), flop / bench.device_ms(function() a:conv2d(w, options) end) / 1e9, "TFLOP/s")
end

for _, tf32 in ipairs{false, true} do
  tide.backends.cuda.matmul.fp32_precision = tf32 and "tf32" or "ieee"
  for _, dtype in ipairs(tf32 and {"float32"} or {"float16", "bfloat16", "float32"}) do
    local more = tf32 and "_tf32" or ""
    conv("conv3x3_256" .. more, dtype, 64, 256, 256, 64, 32, 3, {padding = 1})
    conv("conv3x3_64" .. more, dtype, 64, 64, 64, 56, 56, 3, {padding = 1})
    conv("conv7x7_stride2" .. more, dtype, 64, 3, 64, 224, 224, 7, {stride = 2, padding = 3})
    conv("conv1x1_512" .. more, dtype, 64, 512, 512, 14, 14, 1, {})
    conv("conv3x3_each_channel" .. more, dtype, 64, 128, 128, 56, 56, 3, {padding = 1, groups = 128})
  end
end
