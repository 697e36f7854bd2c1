local x_cpu = tide.empty(2, 3)
local x_gpu = tide.empty(2, 3, {device = "cuda"})
print(tide.ones_like(x_cpu))
print(tide.zeros_like(x_gpu))
