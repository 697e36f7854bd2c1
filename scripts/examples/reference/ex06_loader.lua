local cuda0 = tide.device("cuda:0")
local data = tide.arange(12, {dtype = "float32"}):view(6, 2)
local train_loader = tide.data.loader(data, {batch_size = 4})
for i, x in train_loader:iter() do                   -- i counts from 1
  x = x:to(cuda0, {non_blocking = true})             -- batches are in pinned memory
  print(i, x.device, #x)
end
