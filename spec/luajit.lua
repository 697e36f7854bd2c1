-- What of the specs LuaJIT does not run, and why: a file, or cases of one by their names. lua_bindings/compat/README.md
-- says more about each reason.
local runner = "the runner and its prompt are Lua 5.4's"
local yields = "the function of a block cannot yield"
local closes = "there is no coroutine.close"
local lengths = "tables have no __len and no __pairs, and == asks __eq of one class alone"
local listed = "a list of numbers is float32"
local whole = "a number without a fraction is an integer"
local bits = "the spec computes with integers of 64 bits"
local spelt = "integers of 64 bits are written 1LL"
local finalisers = "tables have no finalisers"
local long = "it is long, and about core alone"
local compiles = "it compiles kernels for minutes"
local tails = "a function that ends with a call leaves no line and no name"
local late = "what an error leaves open is closed by the collector"
local text = "the spec's text is translated before it is loaded, so that no kernel finds it"
local doubles = "LuaJIT's collector begins when the heap of all specs has doubled"
local compiled = "a compiled method is no function in C, so that it is not recognised"

return {
  ["spec/call/sweep_spec.lua"] = whole,
  ["spec/call/transcript_spec.lua"] = whole,
  ["spec/help/examples_spec.lua"] = runner,
  ["spec/runner/package_spec.lua"] = "the installed tree has tests of its own",
  ["spec/runner/repl_spec.lua"] = runner,
  ["spec/runner/runner_spec.lua"] = runner,
  ["spec/device/finaliser_spec.lua"] = finalisers,
  ["spec/call/metatable_spec.lua"] = "it calls every metamethod that the registry holds, LuaJIT's own among them",
  ["spec/host/spawn_spec.lua"] = "functions of the spec use Lua 5.4's library in processes of their own",
  ["spec/device/cpu_memory_spec.lua"] = runner,
  ["spec/kernel/jit_spec.lua"] = compiles,
  ["spec/kernel/kernel_block_spec.lua"] = compiles,
  ["spec/kernel/kernel_lua_spec.lua"] = text,
  ["spec/kernel/kernel_stop_spec.lua"] = text,
  ["spec/kernel/kernel_math_spec.lua"] = bits,
  ["spec/kernel/kernel_barrier_spec.lua"] = text,
  ["spec/kernel/kernel_edge_spec.lua"] = text,
  ["spec/tensor/ends_spec.lua"] = bits,
  ["spec/tensor/narrow_spec.lua"] = "the spec tells integers from numbers without a fraction",
  ["spec/kernel/kernel_hoist_spec.lua"] = "bounds of plain Lua's loops are integers of 64 bits",
  ["spec/kernel/kernel_spec.lua"] = compiles,
  ["spec/kernel/kernel_language_spec.lua"] = {
    ["computes with integers as Lua does"] = text,
    ["computes with floats as Lua does, and with both"] = text,
    ["keeps Lua's order where an operand writes"] = text,
    ["has and, or and not as values"] = text,
    ["has branches and loops, and variables that are integers by one way and floats by another"] = text,
    ["has goto, break and return from within"] = lengths,
    ["writes functions out where they are called"] = text,
    ["reads numbers, tables and tensors outside of the function"] = text,
    ["has sizes, rows and lists of indexes"] = lengths,
    ["wraps indexes around by sizes"] = text,
    ["rounds each product, where differences and sums of them alternate"] = text,
    ["has vectors, matrices and quaternions"] = text,
    ["parts a float into an integer and the rest"] = text,
    ["takes remainders at the ends of the integers as Lua does"] = text,
    ["keeps minus zero, infinities and NaN of tables and literals"] = text,
    ["runs loops over many places, of which a thread takes some"] = text,
    ["keeps what places had when they left a loop, where it is read later"] = text,
  },
  ["spec/tensor/sizes_spec.lua"] = long,
  ["spec/call/argument_spec.lua"] = {
    ["a tensor of counts for repeat_interleave"] = listed,
    ["an element of a shape"] = whole,
    ["equals others and plain tables"] = lengths,
    ["is saved as a plain table"] = lengths,
    ["is taken wherever sizes are"] = lengths,
  },
  ["spec/call/block_spec.lua"] = {
    ["ends where a metamethod began it in a coroutine that dies"] = lengths,
    ["ends where its coroutine is closed"] = closes,
    ["ends where the error comes after a yield, and from below other calls"] = yields,
    ["gives back what its function does, in a coroutine too"] = yields,
  },
  ["spec/device/comm_spec.lua"] = {
    ["adds in one order: the destination's first, the others as listed"] = whole,
  },
  ["spec/tensor/compose_spec.lua"] = {
    ["choose elements"] = listed,
    ["split into so many parts, or at indexes"] = listed,
    ["stack along the first three dimensions"] = listed,
  },
  ["spec/device/device_spec.lua"] = {
    ["refuses what is no device"] = spelt,
  },
  ["spec/random/distribution_spec.lua"] = {
    ["have the mean and the deviation of each place"] = listed,
  },
  ["spec/data/csv_spec.lua"] = {
    ["gives the ends of the integers"] = bits,
  },
  ["spec/distributed/distributed_field_spec.lua"] = {
    ["work with views of larger memory, kernels and fused functions"] = text,
  },
  ["spec/tensor/scan_spec.lua"] = {
    ["wrap products of integers"] = bits,
  },
  ["spec/tensor/einsum_spec.lua"] = {
    ["is called by a finaliser while it runs"] = finalisers,
  },
  ["spec/device/gc_spec.lua"] = {
    ["does not let small results on a device pile up"] = doubles,
    ["leaves handles that another finaliser may still see"] = finalisers,
  },
  ["spec/fuse/fuse_calls_spec.lua"] = {
    ["calls kernels written in Lua between its own (FUSE-03)"] = text,
    ["writes to globals and libraries, and reads all of them"] = "LuaJIT has no _ENV",
  },
  ["spec/fuse/fuse_numbers_spec.lua"] = {
    ["keeps dtypes, integers and floats apart"] = whole,
  },
  ["spec/fuse/fuse_spec.lua"] = {
    ["works in coroutines, also where they end in the middle"] = closes,
  },
  ["spec/graph/graph_capture_spec.lua"] = {
    ["does not concern a block that is left because its coroutine is closed: the capture is dropped"] = closes,
    ["raises at its own line: cpu (15)"] = tails,
    ["raises at its own line: equal (18)"] = tails,
    ["raises at its own line: item (1)"] = tails,
    ["raises at its own line: nonzero (16)"] = tails,
    ["raises at its own line: read (2)"] = tails,
    ["raises at its own line: tensor (14)"] = tails,
  },
  ["spec/graph/graphed_spec.lua"] = {
    ["compute what the function computes, from copies of the arguments"] = whole,
    ["may give tables that refer to themselves"] = whole,
    ["of a list share a pool and run in order"] = whole,
    ["refuse wrong arguments"] = tails,
  },
  ["spec/device/history_spec.lua"] = {
    ["belongs to its coroutine"] = yields,
  },
  ["spec/host/hostile_spec.lua"] = {
    ["that closes the file of load or save is an error"] = finalisers,
    ["that grows a table while it becomes a tensor is an error"] = finalisers,
  },
  ["spec/tensor/index_spec.lua"] = {
    ["of no elements, and of one"] = listed,
    ["that do not fit are errors; a bad value is one at the next wait at the latest, and changes nothing on the cpu"] = listed,
  },
  ["spec/data/loader_spec.lua"] = {
    ["frees what a loop that was left early had prepared"] = "LuaJIT's heap holds compiled code, too",
    ["walks tables and keeps strings a list"] = listed,
  },
  ["spec/data/loader_device_spec.lua"] = {
    ["ends where a finaliser asks for batches, or iterates, after what it uses was finalised"] = finalisers,
  },
  ["spec/call/names_spec.lua"] = {
    ["hints at the call of a method, at item and at the arguments there are"] = compiled,
  },
  ["spec/device/nvtx_spec.lua"] = {
    ["ends out of order where coroutines interleave"] = yields,
    ["ends when its coroutine dies"] = closes,
  },
  ["spec/tensor/ops_spec.lua"] = {
    ["of rounding"] = whole,
  },
  ["spec/runner/options_spec.lua"] = {
    ["out= of several results is written wholly or not at all"] = listed,
  },
  ["spec/device/parallel_spec.lua"] = {
    ["keeps all devices busy, also when the function waits"] = yields,
    ["names the replica that fails and restores what is current"] = yields,
    ["passes on what the function yields"] = yields,
  },
  ["spec/device/pool_spec.lua"] = {
    ["is left whatever happens inside, in both forms"] = yields,
  },
  ["spec/tensor/print_spec.lua"] = {
    ["of floats that are whole"] = whole,
    ["of integers"] = whole,
  },
  ["spec/device/profiler_spec.lua"] = {
    ["lets a function yield, and ends with a coroutine that dies"] = yields,
  },
  ["spec/random/random_spec.lua"] = {
    ["gives normals by Box and Muller"] = bits,
    ["gives the published vectors"] = bits,
    ["gives uniforms from the upper bits"] = bits,
    ["is what a tensor's random integers are"] = bits,
  },
  ["spec/host/reload_spec.lua"] = {
    ["keeps what has changed and takes what was edited"] = whole,
    ["refuses what is no module"] = "it says otherwise that a chunk is binary",
    ["treats the globals that the text sets as the module's"] = "the environment of a chunk is no variable",
  },
  ["spec/random/rng_spec.lua"] = {
    ["default_generators are those that operations draw from"] = lengths,
    ["gives back what was before the first of blocks that overlap"] = yields,
    ["gives the states back where a block in a coroutine never ends"] = closes,
  },
  ["spec/device/sanitizer_spec.lua"] = {
    ["finds the race: a Fourier transform of what another stream writes"] = tails,
    ["finds the race: a cast of what another stream writes"] = tails,
    ["finds the race: a clone of what another stream writes"] = tails,
    ["finds the race: a condition of what another stream writes"] = tails,
    ["finds the race: a matrix product of what another stream writes"] = tails,
    ["finds the race: a maximum with its place of what another stream writes"] = tails,
    ["finds the race: joined tensors of what another stream writes"] = tails,
    ["finds the race: probabilities of what another stream writes"] = tails,
    ["is told with both operations, the bytes and the missing wait"] = tails,
  },
  ["spec/tensor/scatter_spec.lua"] = {
    ["are added, written and filled, in every layout"] = listed,
    ["of nothing, and of one number"] = listed,
    ["of x without dimensions or elements"] = listed,
    ["one_hot and embedding"] = listed,
    ["reports a bad value at the latest when it waits; on the cpu nothing is written then"] = listed,
    ["take reads x as one line, take_along_dim broadcasts"] = listed,
    ["writes nothing for an index without elements, and none where x has none"] = listed,
    ["writes, adds and multiplies along a dimension, in every layout"] = listed,
  },
  ["spec/call/scope_spec.lua"] = {
    ["are closed by coroutine.close"] = closes,
    ["are lost with a coroutine that is dropped inside"] = yields,
    ["belong to the coroutine that runs them"] = yields,
    ["keep the traceback of the place that failed"] = tails,
    ["of functions that run side by side are blocks of their own"] = yields,
    ["serve a coroutine that a finaliser resumes after it was collected"] = finalisers,
  },
  ["spec/data/serialize_spec.lua"] = {
    ["leave what was saved before as it was until all of the new is there"] = late,
  },
  ["spec/tensor/sort_spec.lua"] = {
    ["numbers are what they are beside tensors of integers"] = whole,
  },
  ["spec/device/stream_spec.lua"] = {
    ["wrap foreign handles"] = "the spec looks into a function as Lua 5.4 has it",
  },
  ["spec/tensor/tensor_spec.lua"] = {
    ["empty, zeros, ones, full"] = listed,
    ["item reads one element"] = whole,
    ["iterates over rows with ipairs and pairs"] = lengths,
  },
}
