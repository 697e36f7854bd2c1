local function Network()
  return {weight = tide.randn(42, 10), bias = tide.zeros(10)}
end
local device = tide.device(tide.cuda.is_available() and "cuda" or "cpu")
local x = tide.empty({8, 42}, {device = device})
local net = tide.to(Network(), device)               -- every tensor of a table, to any depth
print(x.device, net.weight.device, net.bias.device)
