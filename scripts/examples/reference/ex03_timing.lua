local start_event = tide.cuda.Event{enable_timing = true}
local end_event = tide.cuda.Event{enable_timing = true}
local x = tide.randn(1000, 1000, {device = "cuda"})
start_event:record()
for _ = 1, 10 do x = x * 2 + 1 end
end_event:record()
tide.cuda.synchronize()                              -- both are recorded now
local elapsed_ms = start_event:elapsed_time(end_event)
print(elapsed_ms > 0)
