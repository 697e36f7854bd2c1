local s = tide.cuda.Stream()
local A = tide.empty({100, 100}, {device = "cuda"}):normal_(0.0, 1.0)
s:wait_stream(tide.cuda.default_stream("cuda"))      -- s goes on behind what fills A
local B = tide.cuda.stream(s, function()
  return tide.sum(A)
end)
A:record_stream(s)                                   -- for foreign code: tide's operations note it themselves
s:synchronize()
print(tide.allclose(B, A:sum()))
