-- What a state that was granted nothing has no name for, and what refuses where the name got there otherwise.

--- every function that needs a capability is absent
local seen = 0
for _, row in ipairs(tide._rows()) do
  if row.needs then
    seen = seen + 1
    if row.path:sub(1, 4) == "tide" then assert(not tide.has(row.path .. "." .. row.name), row.path .. "." .. row.name) end
    if row.path == "Tensor" then assert(not tide.has("Tensor:" .. row.name), row.name) end
  end
end
assert(seen > 80)

--- files by name
for _, name in ipairs { "save", "load", "save_npy", "load_npy", "save_npz", "load_npz", "npz_names", "save_safetensors", "load_safetensors",
  "safetensors_names", "from_file", "save_png", "load_png" } do
  assert(not pcall(function() return tide[name] end), name)
  for key in pairs(tide) do assert(key ~= name) end
end

--- files by plot
--! raises plot: path: the host has not granted this script FILES
tide.plot({ 1, 2, 3 }, { path = "/tmp/tide_sandbox.png" })

--- files by trace, snapshots and graphs
local g = tide.cuda.CUDAGraph()
assert(not pcall(function() return tide.cuda.profiler.trace end))
assert(not pcall(function() return tide.cuda.memory.dump_snapshot end))
assert(not pcall(function() return g.debug_dump end))

--- machine code by jiterator
--! raises no such name
tide.cuda.jiterator.create_jit_fn "template <typename T> T f(T x) { return x; }"

--- machine code by the old names of jiterator
--! raises no such name
tide.cuda.jiterator._create_jit_fn "template <typename T> T f(T x) { return x; }"

--- machine code by compile_kernel
--! raises no such name
tide.cuda.compile_kernel("__global__ void f() {}", "f")

--- machine code by an allocator's library
--! raises no such name
tide.cuda.memory.CUDAPluggableAllocator("/lib/x86_64-linux-gnu/libc.so.6", "malloc", "free")

--- machine code by the allocator under its other path
--! raises no such name
tide.cuda.CUDAPluggableAllocator("/lib/x86_64-linux-gnu/libc.so.6", "malloc", "free")

--- an address of a tensor
--! raises no such field or method
tide.ones(2):data_ptr()

--- an address of a storage
--! raises no field or method
local s = tide.ones(2):storage()
s:data_ptr()

--- an address through the table of methods
--! raises no such name
tide.Tensor.data_ptr(tide.ones(2))

--- a pointer of the FFI
--! raises no such field or method
tide.ones(2):ffi_ptr()

--- the FFI itself
--! raises no such name
local ffi = tide.ffi

--- a tensor of any address
--! raises no such name
tide.from_ptr(4096, 10)

--- the driver's handle of a stream
--! raises PermissionError
local ok, e = pcall(function() return tide.cuda.Stream().cuda_stream end)
assert(not ok)
error(e.kind)

--- the driver's handle of an event
--! raises the host has not granted this script POINTERS
local e = tide.cuda.Event()
e:record()
local _ = e.cuda_event

--- a foreign stream
--! raises no such name
tide.cuda.ExternalStream(1)

--- a foreign stream under its other names
--! raises no such name
tide.cuda.streams.ExternalStream(1)

--- memory of the allocator by address
for _, name in ipairs { "caching_allocator_alloc", "caching_allocator_delete", "current_blas_handle", "memory_snapshot" } do
  assert(not pcall(function() return tide.cuda[name] end), name)
end

--- DLPack
assert(not tide.has "from_dlpack" and not tide.has "Tensor:to_dlpack")

--- other processes
for _, name in ipairs { "multiprocessing.spawn", "multiprocessing._main", "cuda.tensor_from_ipc", "cuda.ipc_collect",
  "cuda.list_gpu_processes", "distributed.init_process_group", "distributed.all_reduce", "cmdline", "cuda.Event.from_ipc_handle" } do
  assert(not tide.has(name), name)
end
assert(not pcall(function() return tide.ones(2).ipc_handle end))

--- a process that ends
--! raises no such name
tide.cmdline "x":parse { "--help" }

--- the reset of a device
--! raises no such name
tide.cuda.device_reset()

--- defaults of the process
for _, name in ipairs { "set_default_dtype", "set_default_device", "device_scope", "set_printoptions", "manual_seed", "seed",
  "set_rng_state", "set_num_threads", "set_flush_denormal", "use_deterministic_algorithms", "set_float32_matmul_precision",
  "cuda.set_sync_debug_mode", "cuda.sync_debug_mode", "cuda.manual_seed", "cuda.manual_seed_all", "cuda.set_rng_state",
  "cuda.random.manual_seed", "random.fork_rng", "cuda.set_peer_access", "cuda.graphs.set_debug", "cuda.comm.set_timeout" } do
  assert(not tide.has(name), name)
end

--- limits and caches of the process
for _, name in ipairs { "cuda.set_per_process_memory_fraction", "cuda.memory.set_per_process_memory_fraction",
  "cuda.memory.set_allocator_settings", "cuda.empty_cache", "cuda.memory.empty_cache", "cuda.memory.empty_host_cache",
  "cpu.empty_cache", "cuda.caching_allocator_enable", "cuda.memory.change_current_allocator",
  "cuda.reset_peak_memory_stats" } do
  assert(not tide.has(name), name)
end

--- what listens to every state
for _, name in ipairs { "cuda.profiler.summary", "cuda.profiler.start", "cuda.profiler.profile", "cuda.sanitizer.enable",
  "cuda.sanitizer.disable", "cuda.memory.record_history", "cuda.memory.on_oom" } do
  assert(not tide.has(name), name)
end

--- a setting that is assigned
--! raises the host has not granted this script GLOBALS
tide.backends.cuda.matmul.fp32_precision = "tf32"

--- the size of the plan cache
--! raises the host has not granted this script GLOBALS
tide.backends.cuda.cufft_plan_cache.max_size = 0

--- the plan cache is cleared
--! raises the host has not granted this script GLOBALS
tide.backends.cuda.cufft_plan_cache:clear()

--- the default generators of devices
--! raises the host has not granted this script GLOBALS
tide.cuda.default_generators[1]:manual_seed(1)

--- a capture that other threads trip over
--! raises the host has not granted this script GLOBALS
tide.cuda.graph(tide.cuda.CUDAGraph(), { capture_error_mode = "global" }, function() end)

--- a stream that sleeps
--! raises no such name
tide.cuda._sleep(1 << 40)

--- waits that are asked for
assert(not tide.has "cuda.synchronize" and not tide.has "cuda.synchronize_all")
assert(not pcall(function() return tide.cuda.Stream().synchronize end))
assert(not pcall(function() return tide.cuda.Event().synchronize end))

--- help and the table of rows do not tell
local text = tide.help "data"
assert(not text:find("data_ptr", 1, true) and not pcall(tide.help, "from_ptr") and not pcall(tide.help, "tide.compile_kernel"))
assert(not tide.help(tide.ones(2)):find("data_ptr", 1, true))
assert(tide.help():find "zeros" and not tide.help():find "save")

--- a near miss does not tell either
local _, e = pcall(function() return tide.from_pt end)
assert(not tostring(e):find("from_ptr", 1, true), tostring(e))

--- a function that another state has leaked
--! raises from_ptr: the host has not granted this script POINTERS
leaked_from_ptr()(4096, 10)

--- a function that was saved before a restriction
--! grant POINTERS FILES
--! then FILES
--! raises data_ptr: the host has not granted this script POINTERS
local x, saved = tide.ones(2), tide.Tensor.data_ptr
assert(saved(x) ~= 0 and x:data_ptr() == saved(x) and tide.has "save")
assert(restrict())
assert(not pcall(function() return x.data_ptr end) and not pcall(function() return tide.Tensor.data_ptr end))
assert(tide.has "save")
saved(x)

--- a restriction gives nothing back
--! grant FILES
--! then FILES POINTERS
assert(restrict())
assert(not tide.has "from_ptr" and tide.has "load")

--- a saved function in a coroutine
--! grant GLOBALS
--! then
--! raises set_default_dtype: the host has not granted this script GLOBALS
local set = tide.set_default_dtype
local co = coroutine.wrap(function() coroutine.yield() set(tide.float64) end)
co()
restrict()
co()

--- what is granted works
--! grant POINTERS WAITS
local x = tide.ones(2, { device = "cuda" })
tide.cuda.synchronize()
assert(x:data_ptr() ~= 0 and x:sum():item() == 2)

--- computing needs nothing
local x = tide.arange(12):view(3, 4):to "float32"
assert((x:matmul(x:t()) + 1):sum():item() == x:matmul(x:t()):sum():item() + 9)
assert(tide.linalg.det(tide.eye(3)):item() == 1 and tide.fft.fft(x):size(1) == 3)
assert(tide.deserialize(tide.serialize { x })[1]:equal(x))
assert(#tide.plot { 1, 2, 3 } == 560)

--- fused functions need nothing
local x = tide.ones(20000)
local f = tide.fuse(function(a) return (a * 2 + 1):sum(), a - 1, (a + 1):std() end)
for _ = 1, 3 do
  local sum, less, apart = f(x)
  assert(sum:item() == 60000 and less:equal(tide.zeros(20000)) and apart:item() == 0)
end
local other = tide.fuse(function(a) return setmetatable({ a * 2 }, {}) end)
for _ = 1, 3 do assert(other(x)[1][1]:item() == 2) end

--- a kernel written in Lua touches nothing but tensors
local k = tide.kernel "function(i, x, n) x[i] = x[i] + n end"
local x = tide.zeros(4)
k(4, x, 2.5)
k:on(2, x, 1)()
assert(x:equal(tide.tensor { 3.5, 3.5, 2.5, 2.5 }) and not pcall(k, 5, x, 1))
assert(load "return tide.kernel(function(i) return i end)(3)"():numel() == 3)

--- the text of a kernel in a file that a chunk only names
--! raises its text is not known
tide.kernel(load("return 1", "@/etc/passwd"))

--- the text of a kernel in a device
--! raises its text is not known
tide.kernel(load("return 1", "@/dev/zero"))
