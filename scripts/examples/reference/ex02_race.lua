local s = tide.cuda.Stream()
local A = tide.empty({100, 100}, {device = "cuda"}):normal_(0.0, 1.0)
local B = tide.cuda.stream(s, function()
  return tide.sum(A)                                 -- wrong: may begin before A is filled
end)
