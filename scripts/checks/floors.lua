-- The rooms of core, lowest floor first; rooms.lua holds the built symbols to it, rules.lua what is included.
-- calls: the rooms below that it may call and include. face: what other rooms may include of it; nil: every header,
-- since each holds one thing.
local rooms = {
  { "os", calls = {}, face = { "os.h", "file.h", "process.h", "stack.h" } }, -- which every room above may call
  { "base", calls = {} },
  { "backend", calls = { "base" } }, -- the tables, and what opens libraries
  { "backend/cpu", calls = { "base", "backend" }, face = { "cpu.h", "cxx.h" } },
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

-- The files of lua_bindings, lowest floor first: a file calls none of a higher floor, and in one floor so many files may
-- call each other in a circle.
rooms.bindings = {
  most_in_circle = 8,
  -- What a call stands on: the state and its coroutines, errors, the rows of functions, the arguments read by them.
  { "args", "bounded", "call", "catch", "class", "error", "error_lost", "fields", "frozen", "handle", "held", "lua_cost", "named", "names", "patterns", "quota_alloc", "quota_clock", "quota_hook", "row", "running", "scope",
    "script", "sizes", "state", "system", "warning" },
  -- What scripts hold: handles with their classes, and where results go.
  { "adapt", "arena", "device", "dtype", "error_class", "event", "out", "random", "storage", "stream", "tensor" },
  -- What scripts call.
  { "fuse",
    "allocator", "apply", "archive", "await", "comm", "compose", "convert", "csv", "csv_write", "debug", "distributed", "distributed_grid", "distributed_library", "distributed_object", "dlpack", "factory", "fft",
    "field", "file", "format", "frame", "frame_cost", "gif", "graph", "graphed", "index", "info", "io", "ipc", "jit", "jit_kernel",
    "kernel_lex", "kernel_words", "linalg", "loader", "matmul", "memory", "memory_history", "memory_scope", "memory_stats", "move", "nccl", "note", "nvtx",
    "ops", "parallel", "parallel_replica", "picture", "profiler", "program", "program_make", "program_source", "random_cuda", "reduce", "reload", "sanitizer",
    "scan", "scatter", "serialize", "shape", "sort", "spawn", "special", "timer", "util", "vectors", "view" },
  -- The module, which sees all of them, its help, and the runner.
  { "api", "doc", "host", "lua_hint", "main", "repl", "repl_command", "repl_edit", "repl_terminal", "row_list",
    "runner_alloc", "runner_globals", "runner_interrupt", "runner_manual", "runner_notebook", "runner_ranks", "runner_setup", "sandbox", "tide" },
}

return rooms
