-- The rooms of core, lowest floor first; rooms.lua holds the built symbols to it, rules.lua what is included.
-- calls: the rooms below that it may call and include. face: what other rooms may include of it; nil: every header,
-- since each holds one thing.
local rooms = {
  { "base", calls = {} },
  { "backend", calls = { "base" } }, -- the tables, and what opens libraries
  { "backend/cpu", calls = { "base", "backend" }, face = { "cpu.h", "cxx.h" } },
  { "backend/sim", calls = { "base", "backend", "backend/cpu" }, face = {} },
  { "backend/cuda", calls = { "base", "backend" }, face = {} },
  { "runtime", calls = { "base", "backend", "backend/cpu", "backend/sim" }, face = { "runtime.h" } },
  { "stream", calls = { "base", "backend", "runtime" }, face = { "stream.h" } },
  { "memory", calls = { "base", "backend", "runtime", "stream" }, face = { "memory.h" } },
  { "tensor", calls = { "base", "backend", "runtime", "stream", "memory" }, face = { "tensor.h" } },
  { "graph", calls = { "base", "runtime", "stream", "memory", "tensor" }, face = { "graph.h" } },
  { "comm", calls = { "base", "runtime", "stream", "memory", "tensor", "graph" }, face = { "comm.h" } },
  { "jit", calls = { "base", "backend", "runtime", "stream", "memory", "tensor", "graph" }, face = { "jit.h" } },
  { "data", calls = { "base", "runtime", "stream", "memory", "tensor" }, face = { "loader.h" } },
  { "watch", calls = { "base", "runtime", "stream", "memory", "tensor", "graph", "comm", "jit" }, face = { "watch.h" } },
  { "io", calls = { "base", "runtime", "stream", "memory", "tensor" }, face = {} },
}

-- The files of lua_bindings, lowest floor first: a file calls none of a higher floor. Those that stand nowhere yet are
-- in one circle, whose size may only fall.
rooms.bindings = {
  most_in_circle = 72,
}

return rooms
