-- library.lua: the tensor library's operations on the CPU with 2 threads, 2^20 to 2^24 elements, calls a second. The
-- peer is library_torch.py; `compare library` lets the two take turns, one short sample each.
-- usage: library.lua [samples=5 [pattern of cases [threads=2]]]
-- With one thread the clock is the processor's time of the process, which no neighbour takes part of.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"
local samples, wanted, threads = tonumber(arg[1]) or 5, arg[2] or "", tonumber(arg[3]) or 2
tide.set_num_threads(threads)
local now = threads == 1 and os.clock or bench.now
local SAMPLE = 0.06 -- seconds
-- After its turn at waiting a program's two threads share a core until the system moves one: not what is measured here.
local WARM = threads == 1 and 0 or 0.04

-- Calls f until `long` seconds are over: the number of calls, and the seconds they took.
local function spell(f, long)
  local calls, t0, seconds = 0, now()
  repeat
    f()
    calls, seconds = calls + 1, now() - t0
  until seconds > long
  return calls, seconds
end

-- What a program does between two lines of its own the other one waits for. make() gives the function that is timed.
local function case(name, make)
  if not name:find(wanted) then return end
  io.read("l")
  collectgarbage()
  local f = make()
  f()
  print(name)
  io.stdout:flush()
  for _ = 1, samples do
    io.read("l")
    spell(f, WARM)
    local calls, seconds = spell(f, SAMPLE)
    bench.out(name, calls / seconds, "1/s")
  end
end
local double, long = {dtype = "float64"}, {dtype = "int64"}
local function places(n, m) return tide.randint(1, n + 1, m, long) end
local K, M, L = 1 << 20, 1 << 22, 1 << 24

-- Places.
case("gather", function() local x, i = tide.randn(M), places(M, {M}) return function() return x:gather(1, i) end end)
case("gather_rows", function()
  local x, i = tide.randn(1024, 4096), places(4096, {1024, 4096})
  return function() return x:gather(2, i) end
end)
for _, n in ipairs{M, 1024, 8} do
  case("scatter_add_into_" .. n, function()
    local x, i, y = tide.randn(M), places(n, {M}), tide.zeros(n)
    return function() y:scatter_add_(1, i, x) end
  end)
end
case("scatter_add_rows", function()
  local x, i, y = tide.randn(1024, 4096), places(4096, {1024, 4096}), tide.zeros(1024, 4096)
  return function() y:scatter_add_(2, i, x) end
end)
case("scatter", function()
  local x, i, y = tide.randn(M), places(M, {M}), tide.zeros(M)
  return function() y:scatter_(1, i, x) end
end)
case("scatter_reduce_amax", function()
  local x, i, y = tide.randn(M), places(K, {M}), tide.zeros(K)
  return function() y:scatter_reduce_(1, i, x, "amax") end
end)
case("index_add", function()
  local x, i, y = tide.randn(1 << 16, 64), places(1 << 16, {1 << 16}), tide.zeros(1 << 16, 64)
  return function() y:index_add_(1, i, x) end
end)
case("index_add_numbers", function()
  local x, i, y = tide.randn(M), places(K, {M}), tide.zeros(K)
  return function() y:index_add_(1, i, x) end
end)
case("index_copy", function()
  local x, i, y = tide.randn(1 << 16, 64), tide.randperm(1 << 16), tide.zeros(1 << 16, 64)
  return function() y:index_copy_(1, i, x) end
end)
case("index_select", function()
  local x, i = tide.randn(1 << 16, 64), places(1 << 16, {1 << 16})
  return function() return x:index_select(1, i) end
end)
case("index_select_columns", function()
  local x, i = tide.randn(1024, 4096), places(4096, {4096})
  return function() return x:index_select(2, i) end
end)
case("index_fill", function()
  local x, i = tide.randn(1 << 16, 64), places(1 << 16, {1 << 15})
  return function() x:index_fill_(1, i, 1) end
end)
case("take", function() local x, i = tide.randn(M), places(M, {M}) return function() return x:take(i) end end)
case("put", function()
  local x, i, y = tide.randn(M), tide.randperm(M), tide.zeros(M)
  return function() y:put_(i, x) end
end)
case("masked_select", function()
  local x = tide.randn(M)
  local mask = x:gt(0)
  return function() return x:masked_select(mask) end
end)
case("masked_scatter", function()
  local x, y = tide.randn(M), tide.randn(M)
  local mask = y:gt(0)
  return function() x:masked_scatter_(mask, y) end
end)
case("masked_fill", function()
  local x = tide.randn(M)
  local mask = x:gt(0)
  return function() x:masked_fill_(mask, 1) end
end)
case("one_hot", function() local i = places(16, {1 << 18}) return function() return tide.one_hot(i, 16) end end)
case("bincount_1024", function() local i = places(1024, {M}) - 1 return function() return i:bincount() end end)
case("bincount_2^20", function() local i = places(K, {M}) - 1 return function() return i:bincount() end end)
case("histc", function() local x = tide.randn(M) return function() return x:histc(100, -3, 3) end end)
case("nonzero", function() local x = tide.randn(M):relu() return function() return x:nonzero() end end)
case("nonzero_2d", function() local x = tide.randn(2048, 2048):relu() return function() return x:nonzero() end end)
case("where", function()
  local x, y = tide.randn(M), tide.randn(M)
  local mask = x:gt(0)
  return function() return tide.where(mask, x, y) end
end)
case("embedding", function()
  local x, i = tide.randn(10000, 128), places(10000, {1 << 15})
  return function() return tide.embedding(x, i) end
end)
case("roll", function() local x = tide.randn(2048, 2048) return function() return x:roll({5, 7}, {1, 2}) end end)
case("flip", function() local x = tide.randn(2048, 2048) return function() return x:flip(1, 2) end end)
case("tril", function() local x = tide.randn(2048, 2048) return function() return x:tril() end end)
case("repeat_interleave", function() local x = tide.randn(M // 4) return function() return x:repeat_interleave(4) end end)

-- Scans.
for _, name in ipairs{"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "diff"} do
  for dim = 0, 2 do
    case(name .. (dim == 0 and "_line" or "_dim" .. dim), function()
      local x = dim == 0 and tide.rand(M) or tide.rand(2048, 2048)
      if name == "diff" then return function() return x:diff{dim = dim == 0 and 1 or dim} end end
      local f = x[name]
      return function() return f(x, dim == 0 and 1 or dim) end
    end)
  end
end

-- Order.
local function sorted(what, make, f)
  case(what, function() local x = make() return function() return f(x) end end)
end
local function normals(...)
  local size = {...}
  return function() return tide.randn(size) end
end
local function sort(x) return x:sort() end
sorted("sort_2^20", normals(K), sort)
sorted("sort_2^24", normals(L), sort)
sorted("sort_float64", function() return tide.randn(K, double) end, sort)
sorted("sort_int64", function() return tide.randint(0, 1 << 40, {K}, long) end, sort)
sorted("sort_int32", function() return tide.randint(0, 1 << 30, {K}, {dtype = "int32"}) end, sort)
for _, n in ipairs{16, 100, 1000} do sorted("sort_lines_of_" .. n, normals(K // n, n), sort) end
sorted("sort_columns", normals(1024, 1024), function(x) return x:sort(1) end)
sorted("argsort_2^20", normals(K), function(x) return x:argsort() end)
for _, k in ipairs{10, 1000} do sorted("topk_" .. k .. "_of_2^22", normals(M), function(x) return x:topk(k) end) end
for _, n in ipairs{16, 100, 1000, 10000} do
  sorted("topk_10_of_lines_of_" .. n, normals(M // n, n), function(x) return x:topk(10) end)
end
sorted("topk_1_of_lines_of_100", normals(M // 100, 100), function(x) return x:topk(1) end)
sorted("kthvalue", normals(M), function(x) return x:kthvalue(M // 3) end)
sorted("kthvalue_lines", normals(1024, 1024), function(x) return x:kthvalue(300) end)
sorted("median", normals(M), function(x) return x:median() end)
sorted("median_lines", normals(1024, 1024), function(x) return x:median(2) end)
sorted("mode_lines", function() return tide.randint(0, 100, {1024, 1024}, long) end, function(x) return x:mode() end)
sorted("quantile", normals(K), function(x) return x:quantile(0.3) end)
sorted("quantile_lines", normals(1024, 1024), function(x) return x:quantile(0.3, 2) end)
local function some() return tide.randint(0, 1 << 16, {K}, long) end
sorted("unique", some, function(x) return x:unique() end)
sorted("unique_float32", normals(K), function(x) return x:unique() end)
sorted("unique_inverse", some, function(x) return x:unique{return_inverse = true, return_counts = true} end)
for _, n in ipairs{100, 1 << 16} do
  local edges = tide.randn(n):sort()
  sorted("searchsorted_in_" .. n, normals(K), function(x) return tide.searchsorted(edges, x) end)
end
case("searchsorted_in_order", function()
  local edges, x = tide.randn(1 << 16):sort(), tide.randn(K):sort()
  return function() return tide.searchsorted(edges, x) end
end)
case("searchsorted_lines", function()
  local edges, x = tide.randn(1024, 256):sort(), tide.randn(1024, 1024)
  return function() return tide.searchsorted(edges, x) end
end)
case("bucketize", function()
  local edges, x = tide.linspace(-3, 3, 31), tide.randn(K)
  return function() return tide.bucketize(x, edges) end
end)
case("isin_100", function()
  local x, some = tide.randint(0, 1000, {K}, long), tide.randint(0, 1000, {100}, long)
  return function() return tide.isin(x, some) end
end)
case("isin_2^16", function()
  local x, some = tide.randint(0, 1 << 20, {K}, long), tide.randint(0, 1 << 20, {1 << 16}, long)
  return function() return tide.isin(x, some) end
end)

-- Softmax and its kind.
for _, name in ipairs{"softmax", "log_softmax", "logsumexp"} do
  for _, shape in ipairs{{4000, 1000, 2}, {256, 16384, 2}, {2048, 2048, 1}, {40, 100000, 2}, {262144, 16, 2}} do
    case(("%s_%dx%d_dim%d"):format(name, table.unpack(shape)), function()
      local x = tide.randn(shape[1], shape[2])
      return function() return tide[name](x, shape[3]) end
    end)
  end
end
for _, dtype in ipairs{"bfloat16", "float64"} do
  case("softmax_" .. dtype, function()
    local x = tide.randn(4000, 1000):to(dtype)
    return function() return x:softmax(2) end
  end)
end

-- Products and distances.
local function product(equation, ...)
  local sizes = {...}
  case("einsum_" .. equation:gsub("%W+", "_"), function()
    local list = {}
    for i, size in ipairs(sizes) do list[i] = tide.randn(size) end
    return function() return tide.einsum(equation, table.unpack(list)) end
  end)
end
product("ij,jk->ik", {512, 512}, {512, 512})
product("bij,bjk->bik", {64, 128, 128}, {64, 128, 128})
product("bhid,bhjd->bhij", {4, 8, 256, 64}, {4, 8, 256, 64})
product("ij,ij->i", {2048, 2048}, {2048, 2048})
product("i,j->ij", {2048}, {2048})
product("ijk->kji", {128, 128, 256})
product("ij->j", {2048, 2048})
local function two(name, a, b, f)
  case(name, function() local x, y = tide.randn(a), tide.randn(b) return function() return f(x, y) end end)
end
two("tensordot", {64, 64, 128}, {64, 128, 64}, function(x, y) return tide.tensordot(x, y, {{2, 3}, {1, 2}}) end)
two("kron", {64, 64}, {32, 32}, function(x, y) return tide.kron(x, y) end)
two("cross", {K, 3}, {K, 3}, function(x, y) return tide.cross(x, y) end)
two("cross_dim1", {3, K}, {3, K}, function(x, y) return tide.cross(x, y, {dim = 1}) end)
two("cdist", {2048, 64}, {2048, 64}, function(x, y) return tide.cdist(x, y) end)
two("cdist_p1", {1024, 64}, {1024, 64}, function(x, y) return tide.cdist(x, y, 1) end)
two("cdist_of_3", {2048, 3}, {2048, 3}, function(x, y) return tide.cdist(x, y) end)

-- Borders, sizes, windows.
local function image(name, f, ...)
  local size = {...}
  if not size[1] then size = {4, 16, 256, 256} end
  case(name, function() local x = tide.randn(size) return function() return f(x) end end)
end
for _, mode in ipairs{"constant", "reflect", "replicate", "circular"} do
  image("pad_" .. mode, function(x) return x:pad({3, 3, 3, 3}, {mode = mode}) end)
end
for _, scale in ipairs{2, 0.5} do
  for _, mode in ipairs{"nearest", "bilinear", "bicubic", "area"} do
    local options = {scale_factor = scale, mode = mode}
    image(("interpolate_%s_%g"):format(mode, scale), function(x) return tide.interpolate(x, options) end, 4, 16, 128, 128)
  end
end
image("interpolate_linear_2", function(x) return tide.interpolate(x, {scale_factor = 2, mode = "linear"}) end, 4, 16, 1 << 14)
image("interpolate_trilinear_2", function(x) return tide.interpolate(x, {scale_factor = 2, mode = "trilinear"}) end, 2, 4, 32, 64, 64)
for _, mode in ipairs{"bilinear", "nearest", "bicubic"} do
  case("grid_sample_" .. mode, function()
    local x, grid = tide.randn(4, 16, 128, 128), tide.rand(4, 128, 128, 2) * 2 - 1
    return function() return tide.grid_sample(x, grid, {mode = mode}) end
  end)
end
image("max_pool2d_2", function(x) return x:max_pool2d(2) end)
image("max_pool2d_3_1", function(x) return x:max_pool2d(3, 1, 1) end)
image("max_pool2d_3_2", function(x) return x:max_pool2d(3, 2, 1) end)
image("max_pool2d_places", function(x) return x:max_pool2d(2, 2, 0, {return_indices = true}) end)
image("max_pool1d", function(x) return x:max_pool1d(2) end, 16, 16, 1 << 14)
image("max_pool3d", function(x) return x:max_pool3d(2) end, 2, 16, 32, 64, 64)
image("avg_pool2d_2", function(x) return x:avg_pool2d(2) end)
image("avg_pool2d_3_1", function(x) return x:avg_pool2d(3, 1, 1) end)
image("avg_pool1d", function(x) return x:avg_pool1d(2) end, 16, 16, 1 << 14)
image("avg_pool3d", function(x) return x:avg_pool3d(2) end, 2, 16, 32, 64, 64)

-- Convolutions: name of the function, sizes of x and of the weights, options.
local function conv(name, f, x, w, options)
  two(name, x, w, function(a, b) return f(a, b, options) end)
end
conv("conv1d_3", tide.conv1d, {8, 64, 4096}, {64, 64, 3}, {padding = 1})
conv("conv1d_long", tide.conv1d, {4, 1, 1 << 18}, {16, 1, 31}, {padding = 15})
conv("conv2d_3x3_64", tide.conv2d, {4, 64, 56, 56}, {64, 64, 3, 3}, {padding = 1})
conv("conv2d_3x3_256", tide.conv2d, {4, 256, 14, 14}, {256, 256, 3, 3}, {padding = 1})
conv("conv2d_1x1_256", tide.conv2d, {4, 256, 28, 28}, {256, 256, 1, 1}, {})
conv("conv2d_7x7_stride2", tide.conv2d, {4, 3, 224, 224}, {64, 3, 7, 7}, {stride = 2, padding = 3})
conv("conv2d_5x5_one_channel", tide.conv2d, {4, 1, 512, 512}, {1, 1, 5, 5}, {padding = 2})
conv("conv2d_groups4", tide.conv2d, {4, 64, 56, 56}, {64, 16, 3, 3}, {padding = 1, groups = 4})
conv("conv2d_depthwise", tide.conv2d, {4, 128, 56, 56}, {128, 1, 3, 3}, {padding = 1, groups = 128})
conv("conv2d_depthwise_stride2", tide.conv2d, {4, 128, 56, 56}, {128, 1, 3, 3}, {padding = 1, stride = 2, groups = 128})
conv("conv2d_dilated", tide.conv2d, {4, 64, 56, 56}, {64, 64, 3, 3}, {padding = 2, dilation = 2})
conv("conv3d_3", tide.conv3d, {2, 16, 16, 32, 32}, {32, 16, 3, 3, 3}, {padding = 1})
conv("conv_transpose1d", tide.conv_transpose1d, {4, 64, 2048}, {64, 32, 4}, {stride = 2, padding = 1})
conv("conv_transpose2d", tide.conv_transpose2d, {4, 64, 28, 28}, {64, 32, 4, 4}, {stride = 2, padding = 1})
conv("conv_transpose3d", tide.conv_transpose3d, {1, 32, 8, 16, 16}, {32, 16, 4, 4, 4}, {stride = 2, padding = 1})

-- Random numbers.
case("multinomial_of_1000", function()
  local p = tide.rand(1000)
  return function() return p:multinomial(1 << 16, {replacement = true}) end
end)
case("multinomial_lines", function() local p = tide.rand(4096, 256) return function() return p:multinomial(4, {replacement = true}) end end)
case("multinomial_once", function() local p = tide.rand(1024, 1024) return function() return p:multinomial(10) end end)
case("normal_of_tensors", function()
  local mean, std = tide.randn(M), tide.rand(M)
  return function() return tide.normal(mean, std) end
end)
case("randn", function() return function() return tide.randn(M) end end)
case("rand", function() return function() return tide.rand(M) end end)
case("randint", function() return function() return tide.randint(0, 1000, {M}, long) end end)
for _, rate in ipairs{2, 50} do
  case("poisson_of_" .. rate, function() local x = tide.full({K}, rate) * 1.0 return function() return tide.poisson(x) end end)
end
case("bernoulli", function() local p = tide.rand(M) return function() return tide.bernoulli(p) end end)
for _, name in ipairs{"exponential_", "cauchy_", "log_normal_"} do
  case(name, function() local x = tide.empty(M) return function() x[name](x) end end)
end

-- Functions of one number, and of two.
for _, dtype in ipairs{"float32", "float64"} do
  local function numbers(low, high) return tide.empty(K, {dtype = dtype}):uniform_(low, high) end
  local function of(name, low, high, ...)
    local more = {...}
    case(name .. "_" .. dtype, function()
      local x, f = numbers(low, high), (tide.has(name) and tide or tide.special)[name]
      return function() return f(x, table.unpack(more)) end
    end)
  end
  of("sinc", -5, 5)
  of("erfinv", -1, 1)
  of("erf", -4, 4)
  of("erfc", -4, 4)
  of("lgamma", 0.1, 20)
  of("digamma", 0.1, 20)
  case("polygamma_1_" .. dtype, function() local x = numbers(0.1, 20) return function() return tide.polygamma(1, x) end end)
  case("polygamma_2_" .. dtype, function() local x = numbers(0.1, 20) return function() return tide.polygamma(2, x) end end)
  of("i0", -10, 10)
  of("logit", 0, 1)
  of("entr", 0, 1)
  of("ndtr", -4, 4)
  of("ndtri", 0, 1)
  for _, name in ipairs{"exp", "exp2", "expm1", "sin", "tan", "tanh", "sinh", "atan", "asinh", "sigmoid"} do of(name, -5, 5) end
  for _, name in ipairs{"log", "log1p", "log10", "sqrt", "rsqrt"} do of(name, 0.1, 20) end
  of("gelu", -5, 5)
  of("silu", -5, 5)
  of("nan_to_num", -1, 1)
  for _, name in ipairs{"logaddexp", "logaddexp2", "xlogy", "hypot", "atan2", "pow", "ldexp", "fmod", "nextafter", "copysign"} do
    case(name .. "_" .. dtype, function()
      local x, y, f = numbers(0.1, 5), numbers(0.1, 5), tide[name]
      return function() return f(x, y) end
    end)
  end
end

-- Deviations and norms.
for _, name in ipairs{"std", "var"} do
  for dim = 0, 2 do
    case(name .. (dim == 0 and "_all" or "_dim" .. dim), function()
      local x = tide.randn(2048, 2048)
      if dim == 0 then return function() return x[name](x) end end
      return function() return x[name](x, dim) end
    end)
  end
end
for _, p in ipairs{1, 2, 3, math.huge} do
  case(("norm_%g"):format(p), function() local x = tide.randn(2048, 2048) return function() return x:norm(p, 2) end end)
end
case("norm_2_dim1", function() local x = tide.randn(2048, 2048) return function() return x:norm(2, 1) end end)
case("aminmax", function() local x = tide.randn(2048, 2048) return function() return x:aminmax() end end)
case("trapezoid", function() local x = tide.randn(2048, 2048) return function() return tide.trapezoid(x) end end)
case("cov", function() local x = tide.randn(256, 4096) return function() return tide.cov(x) end end)

-- Files of NumPy's, 16 MiB, in memory: tide waits until a new file is on the disk, NumPy does not.
do
  local path = os.tmpname()
  if io.open("/dev/shm") then
    os.remove(path)
    path = path:gsub("^.*/", "/dev/shm/")
  end
  case("npy_save", function() local x = tide.randn(M) return function() tide.save_npy(path, x) end end)
  case("npy_load", function()
    tide.save_npy(path, tide.randn(M))
    return function() return tide.load_npy(path) end
  end)
  os.remove(path)
end
