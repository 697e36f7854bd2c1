local cuda = tide.device("cuda")                     -- the current GPU, at the moment of use
local cuda0 = tide.device("cuda:0")
local cuda2 = tide.device("cuda:2")
local x = tide.tensor({1., 2.}, {device = cuda0})
local y = tide.tensor({1., 2.}):cuda()
do
  local _ <close> = tide.cuda.device(1)              -- until the end of the block
  local a = tide.tensor({1., 2.}, {device = cuda})
  local b = tide.tensor({1., 2.}):cuda()
  local b2 = tide.tensor({1., 2.}):to(cuda)
  local c = a + b                                    -- where its operands are
  local z = x + y                                    -- same here: the block does not matter
  local d = tide.randn(2, {device = cuda2})          -- a device that is named wins
  local e = tide.randn(2):to(cuda2)
  local f = tide.randn(2):cuda(cuda2)
  print(x.device, y.device, z.device)
  print(a.device, b.device, b2.device, c.device)
  print(d.device, e.device, f.device)
end
print(tide.cuda.current_device())
