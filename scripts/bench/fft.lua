-- fft.lua: Fourier transforms on cuda:0, microseconds of one of ten between two events. The peers are fft_torch.py and
-- bare_fft.cu.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local cuda = {device = "cuda"}
local fft = tide.fft
local function real(...) return tide.randn({...}, cuda) end
local function complex(...) return tide.complex(real(...), real(...)) end

local function row(case, x, f)
  local ms = bench.device_ms(function() for _ = 1, 10 do f(x) end end)
  bench.out("fft_" .. case, ms * 1e3 / 10, "us")
end
row("c2c_16M", complex(1, 1 << 24), fft.fft)
row("c2c_4096x1024", complex(4096, 1024), fft.fft)
row("c2c_65536x256", complex(65536, 256), fft.fft)
row("c2c_64x65536", complex(64, 65536), fft.fft)
row("c2c_16384x1009", complex(16384, 1009), fft.fft)
row("z2z_16384x1024", complex(16384, 1024):to(tide.complex128), fft.fft)
row("r2c_65536x1024", real(65536, 1024), fft.rfft)
row("c2c2_64x512x512", complex(64, 512, 512), fft.fft2)
row("r2c2_64x512x512", real(64, 512, 512), fft.rfft2)
row("c2c3_256", complex(256, 256, 256), fft.fftn)
row("c2c_dim1_4096x4096", complex(4096, 4096), function(x) return fft.fft(x, {dim = 1}) end)
row("c2r_65536x513", complex(65536, 513), fft.irfft) -- copies its input, which cuFFT would write over
row("real_input_65536x1024", real(65536, 1024), fft.fft)
row("c2c_ortho_4096x1024", complex(4096, 1024), function(x) return fft.fft(x, {norm = "ortho"}) end)

local small = complex(16, 64)
bench.host("fft_16x64", function(n) for _ = 1, n do fft.fft(small) end end, 2000, tide.cuda.synchronize)
