-- The rooms of core, lowest floor first; rooms.lua holds the built symbols to it, rules.lua what is included.
-- calls: the rooms below that it may call and include. face: what other rooms may include of it; nil: every header,
-- since each holds one thing.
local rooms = {
  { "os", calls = {}, face = { "os.h", "file.h", "process.h", "stack.h" } }, -- which every room above may call
  { "base", calls = {} },
  { "backend", calls = { "base" } }, -- the tables, and what opens libraries
  { "backend/cpu", calls = { "base", "backend" }, face = { "cpu.h", "jit/cxx.h" } },
  { "backend/sim", calls = { "base", "backend", "backend/cpu" }, face = {} },
  { "backend/cuda", calls = { "base", "backend" }, face = {} },
  { "runtime", calls = { "base", "backend" }, face = { "runtime.h" } },
  { "stream", calls = { "base", "backend", "runtime" }, face = { "stream.h" } },
  { "memory", calls = { "base", "backend", "runtime", "stream" }, face = { "memory.h" } },
  { "tensor", calls = { "base", "backend", "runtime", "stream", "memory" }, face = { "tensor.h" } },
  { "graph", calls = { "base", "backend", "runtime", "stream", "memory", "tensor" }, face = { "graph.h" } },
  { "comm", calls = { "base", "runtime", "stream", "memory", "tensor", "graph" }, face = { "comm.h" } },
  { "jit", calls = { "base", "backend", "runtime", "stream", "memory", "tensor", "graph" }, face = { "jit.h" } },
  { "data", calls = { "base", "runtime", "stream", "memory", "tensor" }, face = { "loader.h" } },
  { "watch", calls = { "base", "runtime", "stream", "memory", "tensor", "graph", "comm", "jit" }, face = { "watch.h" } },
  { "io", calls = { "base", "runtime", "stream", "memory", "tensor" }, face = {} },
  { "distributed", calls = {}, face = {} }, -- a library of its own, which is handed what it calls of tide
}

for i = 2, #rooms do table.insert(rooms[i].calls, "os") end

-- The rooms of lua_bindings, lowest floor first.
local all = { "call", "quota", "fuse", "tensor", "device", "kernel", "data", "distributed", "plot", "host", "help" }
rooms.bindings = {
  { "call", calls = {} }, -- what a call stands on: the state, errors, the rows of functions, arguments
  { "quota", calls = { "call" } },
  { "fuse", calls = { "call" } },
  { "tensor", calls = { "call", "fuse" } },
  { "device", calls = { "call", "quota", "tensor" } },
  { "kernel", calls = { "call", "tensor" } },
  { "data", calls = { "call", "tensor" } },
  { "distributed", calls = { "call", "tensor", "data" } },
  { "plot", calls = { "call", "tensor", "data" } },
  { "host", calls = { "call", "quota", "tensor", "device", "data" } },
  { "help", calls = { "call" } },
  { "the module", calls = all }, -- tide.c and api.c, which see all of them
  { "runner", calls = { "the module", table.unpack(all) } },
}

return rooms
