-- From the typed tree of a kernel to its text: CUDA C for NVRTC, C++ for the compiler of the CPU. Here is what a launch runs and
-- what it hands the body; text_statements.lua writes the body and text_expressions.lua what is computed in it.
--
-- On a GPU a thread works at one place of the grid. On the CPU a block is a run of places of the last dimension, one loop.
-- A loop with tests of indexes in it is no vector code. So the range of each index over the run is computed first, where it
-- follows from places, sizes and numbers alone: if all lie inside, a second loop runs that has none of these tests, and if
-- conditions hold for the whole run, a third that has none of these either. Where they do not, which is at the edges of a
-- grid as a rule, the first and the last place are done apart.
--
-- The ranges are computed with numbers below 2^40 only (tk_small), so that they cannot wrap around.
--
-- w is the writer of a text: `out`, what is written, piece by piece, and what the three files need to know meanwhile (begin).
-- Nothing else is kept between calls, as the tree names functions, whose tensors would live on.
--
-- Invariant: what was not shown to lie inside is tested.

local M = ...
local build, kernel, flat, own, prelude = use "kernel/build", use "kernel/kernel", use "kernel/flat", use "kernel/own", use "kernel/prelude"
local range_tests, loop_stops, expressions, statements = use "kernel/ranges", use "kernel/stops", use "kernel/text_expressions", use "kernel/text_statements"
local storage, kinds = expressions.storage, expressions.kinds
local integer_text, float_text = expressions.integer_text, expressions.float_text
local put, write_all, write_body, end_line = statements.put, statements.write_all, statements.write_body, statements.end_line

-- ---- what the body works on ----

-- Addresses, sizes, strides and numbers as the slots have them. What results are written to may have any strides.
local function write_operands(w, typed)
  local first, units = kernel.slots(typed), w.units and #typed.operands - typed.results or 0
  for k = 1, #typed.operands do
    local x, at = typed.operands[k], first[k]
    if x.kind == "tensor" then
      put(w, storage[x.dtype] .. " *const p" .. k .. " = (" .. storage[x.dtype] .. " *)s[" .. at .. "];\n")
      for d = 1, x.ndim do
        local size, stride = "(tide_x)s[" .. at + d .. "]", d == x.ndim and k <= units and "1" or "(tide_x)s[" .. at + x.ndim + d .. "]"
        if x.like and x.like > 0 and x.like < k then size, stride = "n" .. x.like .. "_" .. d, "s" .. x.like .. "_" .. d end
        if x.packed == 1 and d > x.ndim - 2 then
          size, stride = d < x.ndim and size or literal(x.reads_to), d < x.ndim and literal(x.reads_to) or "1"
        end
        put(w, "const tide_x n" .. k .. "_" .. d .. " = " .. size .. ", s" .. k .. "_" .. d .. " = " .. stride .. ";\n")
      end
    elseif x.kind == "float" then
      put(w, "const tide_r a" .. k .. " = (tide_r)tk_bits<double>(s[" .. at .. "]);\n")
    else
      put(w, "const " .. (x.kind == "boolean" and "bool a" or "tide_i a") .. k .. " = " .. (x.kind == "boolean" and "0 != " or "") .. "s[" .. at .. "];\n")
    end
  end
end

local function write_vars(w, typed)
  for k = 1, #typed.vars do
    local v = typed.vars[k]
    put(w, (v.narrow and "int" or kinds[v.type]) .. " v" .. k .. " = 0;\n")
  end
end

local function write_meets(w)
  if not w.meets then return end
  put(w, "unsigned tk_round = 0;\n")
  for k = 1, #w.meets.loops do put(w, "unsigned tk_n" .. w.meets.loops[k] .. " = 0;\n") end
end

local function write_tables(w, typed)
  for k = 1, #typed.constants do
    local c, list = typed.constants[k], {}
    local float = c.dtype == "float64"
    for i = 1, #c.values do
      list[i] = float and float_text(w, c.values[i], "double") or integer_text(c.values[i])
    end
    put(w, "TIDE_TABLE const " .. storage[c.dtype] .. " c" .. k .. "[] = {" .. join(list, ", ") .. "};\n")
  end
  for k = 1, #typed.shared do
    local a, n = typed.shared[k], 1
    for d = 1, #a.sizes do n = n * a.sizes[d] end
    put(w, "static TIDE_SHARED " .. storage[a.dtype] .. " sh" .. k .. "[" .. n .. "];\n")
  end
end

-- The place of a thread in its block and in the grid; blocks are counted with the last dimension fastest. On a GPU that one is
-- the launch's first, and the second and third count the others (kernel_launch.c). clamped: what is outside of the grid is
-- its last place once more, and not `in`.
local function write_place(w, typed, of_block, of_gpu, clamped)
  local ndim, block = typed.ndim, w.block
  local is_apart = of_gpu and ndim > 1
  put(w, "unsigned rest = " .. (is_apart and "blockIdx.z * 65535u + blockIdx.y" or of_block) .. ", inner = t;\n")
  for d = ndim, 1, -1 do
    local of = "rest"
    if is_apart and d == ndim then
      of = of_block
    elseif d > 1 then
      put(w, "const unsigned along" .. d .. " = (unsigned)((s[" .. d - 1 .. "] + " .. block[d] - 1 .. ") / " .. block[d] .. ");\n")
      of = "(rest % along" .. d .. ")"
    end
    put(w, "const long long b" .. d .. " = (long long)" .. of .. " + 1;\n")
    if of ~= of_block and d > 1 then put(w, "rest /= along" .. d .. ";\n") end
    put(w, "const int t" .. d .. " = (int)" .. (d == 1 and "inner" or "(inner % " .. block[d] .. ")") .. " + 1;\n")
    if d > 1 then put(w, "inner /= " .. block[d] .. ";\n") end
    local size = "(tide_x)s[" .. d - 1 .. "]"
    put(w, "const tide_x " .. (clamped and "o" or "i") .. d .. " = (tide_x)((b" .. d .. " - 1) * " .. block[d] .. ") + t" .. d .. ";\n")
    if clamped then put(w, "const tide_x i" .. d .. " = o" .. d .. " < " .. size .. " ? o" .. d .. " : " .. size .. ";\nin &= o" .. d .. " <= " .. size .. ";\n") end
  end
end

local function outside_of(typed)
  local tests = {}
  for d = 1, typed.ndim do tests[d] = "i" .. d .. " > (tide_x)s[" .. d - 1 .. "]" end
  return join(tests, " || ")
end
local function write_outside(w, typed) put(w, "if (" .. outside_of(typed) .. ") return;\n") end

local function write_clear(w)
  local any
  for kind in next, w.sums do
    put(w, "tk_sum_" .. kind .. "_clear(t);\n")
    any = true
  end
  if w.meets then put(w, "tk_meet_clear(t);\n") end
  -- another state's kernel may have left its values there
  for k = 1, w.clear and #w.typed.shared or 0 do
    put(w, "for (unsigned n = t; n < sizeof sh" .. k .. " / sizeof *sh" .. k .. "; n += TIDE_THREADS) sh" .. k .. "[n] = {};\n")
    any = true
  end
  if any or w.meets then put(w, "__syncthreads();\n") end
end

-- The body for one thread. Where the indexes of its place are known, they are tested together, and a thread whose indexes
-- all lie inside tests none of them on its way: so it may begin all that it reads at once. Those of a block that wait for
-- each other go the same way. There are two of it where indexes wrap around: once at most, which is compared, or more, which
-- divides. Copies with loops take more registers than a thread needs, so that a multiprocessor is to hold 1280 threads, of 48.
-- What the other threads do is rare, and takes a compiler longer than all the rest; so their
-- accesses are calls, where there are more than a few.
local function write_copies(w, typed, of_gpu)
  local ranges = of_gpu and w.check and range_tests.write(typed, w.block)
  if ranges and next(ranges.inside) then
    local copies = next(ranges.wraps) and 2 or 1
    put(w, "bool fast = true, near = true;\n" .. ranges.text)
    if typed.barriers then put(w, "fast = __syncthreads_and(fast);\n" .. (copies > 1 and "near = __syncthreads_and(near);\n" or "")) end
    w.fast, w.inside, w.crowd = true, ranges.inside, next(w.stops) and not typed.barriers and typed.float ~= "float64"
    for k = copies, 1, -1 do
      w.copy, w.wanted, w.line, w.wraps = k + 1, {}, nil, k > 1 and ranges.wraps or {}
      put(w, k > 1 and "if (fast & near) {\n" or "if (fast) {\n")
      write_body(w)
      put(w, end_line(w) .. "return;\n}\n")
    end
    w.fast, w.copy, w.wanted, w.line, w.outside = false, 1, {}, nil, true
    if w.accesses > 3 then w.apart = "apart_" end
  end
  write_body(w)
end

-- What fn(w, ...) writes, as a text.
local function written(w, fn, ...)
  local before = w.out
  w.out = {}
  fn(w, ...)
  local text = join(w.out)
  w.out = before
  return text
end

-- Blocks of a GPU look as they begin whether to end at all, where a grid may take long: by loops, atomic operations that wait
-- for each other or a long text, or by its size. Others do not, as it takes the compiler a fifth longer.
local long_text, slow_blocks, blocks = 1 << 14, 1 << 12, 1 << 20
local function write_looks(w, of_gpu, body)
  local loops, slow = next(w.stops) ~= nil, w.typed.atomics or #body > long_text
  if loops then put(w, "int tk_left = TIDE_ROUNDS;\n" .. (of_gpu and "unsigned tk_looks = 0;\n" or "")) end
  if not of_gpu or w.small and not (w.many or loops or slow) then return end
  w.late = true
  local one = w.typed.barriers and "true" or "threadIdx.x == 0" -- threads that wait for each other end together
  put(w, "TIDE_LATE(" .. ((loops or slow) and literal(slow_blocks) .. ", 1024, " or literal(blocks) .. ", 16384, ") .. one .. ")\n")
end

-- A function of one thread: the kernel of a GPU, or what runs by turns on the CPU.
local function write_thread(w, typed, head, of_block, of_gpu)
  local inner = written(w, write_copies, typed, of_gpu)
  put(w, head)
  write_place(w, typed, of_block, of_gpu)
  write_clear(w)
  write_outside(w, typed)
  write_looks(w, of_gpu, inner)
  write_operands(w, typed)
  write_vars(w, typed)
  write_meets(w)
  put(w, inner)
  put(w, end_line(w) .. "}\n")
end

-- ---- several places of a thread ----

-- A thread of a GPU does several places of a kernel whose results are reduced, or that computes little: their reads are in flight
-- together where the indexes of all of them lie inside.
local rounds_of_join, rounds_of_flat = 8, 4

-- A block joins what its threads return, and writes one value for all of them.
local joins = {
  sum = { "a + b", "0", "0" }, prod = { "a * b", "1", "1" },
  min = { "a < b || a != a ? a : b", "INF_", "0x7fffffffffffffffll" }, max = { "a > b || a != a ? a : b", "-INF_", "-0x7fffffffffffffffll - 1" },
}

local function result_of(typed, n) return typed.operands[#typed.operands - typed.results + n] end

-- Threads that wait for each other return once.
local function is_joined(typed, opts)
  if not opts.reduce or typed.results == 0 or typed.barriers or not opts.small then return false end
  for n = 1, typed.results do
    local dtype = result_of(typed, n).dtype
    if dtype ~= "int64" and dtype ~= "float32" and dtype ~= "float64" then return false end
  end
  return true
end

local function kind_of(typed, n) return result_of(typed, n).dtype == "int64" and "tide_i" or "tide_r" end

-- None of anything, in a result of that name.
local function write_none(w, typed, name)
  for n = 1, w.joined and typed.results or 0 do
    local kind = kind_of(typed, n)
    put(w, kind .. " " .. name .. n .. " = " .. joins[w.joined][kind == "tide_i" and 3 or 2] .. ";\n")
  end
end

-- Integers are joined as unsigned numbers, which wrap around.
local function write_joins(w, typed)
  for n = 1, typed.results do
    local kind, expr = kind_of(typed, n), joins[w.joined][1]
    if kind == "tide_i" and (w.joined == "sum" or w.joined == "prod") then expr = "(tide_i)((tide_u)a " .. (w.joined == "sum" and "+" or "*") .. " (tide_u)b)" end
    put(w, "const auto join" .. n .. " = [](" .. kind .. " a, " .. kind .. " b) { return " .. expr .. "; };\n")
  end
end

local function write_round(w, typed, unroll, clamped)
  put(w, (unroll and "#pragma unroll " .. unroll .. "\n" or "") .. "for (unsigned round = 0; round < " .. w.rounds .. "; round++) {\n")
  if clamped then put(w, "bool in = true;\n") end
  write_place(w, typed, w.of_block, true, clamped)
end

-- The places of a thread, one after the other; those outside of the grid return nothing where that is looked at.
local function write_rounds(w, typed, unroll, outside, clamped)
  write_round(w, typed, unroll, clamped)
  write_none(w, typed, "q")
  put(w, "const auto one = [&]() {\n" .. (outside and "if (" .. outside .. ") return;\n" or ""))
  write_vars(w, typed)
  write_all(w, typed.body)
  put(w, end_line(w) .. "};\none();\n")
  for n = 1, w.joined and typed.results or 0 do put(w, "r" .. n .. " = join" .. n .. "(r" .. n .. ", q" .. n .. ");\n") end
  put(w, "}\n")
end

-- What is written waits until all places have read.
local function write_later(w, typed, unroll)
  local later = {}
  w.later = not w.joined and later
  local reads = written(w, write_rounds, typed, unroll, nil, not w.joined)
  w.later = nil
  for k = 1, #later do put(w, later[k].kind .. " k" .. k .. "[" .. w.rounds .. "];\n") end
  put(w, reads)
  if #later == 0 then return end
  write_round(w, typed, unroll, true)
  put(w, "if (!in) continue;\n")
  for k = 1, #later do put(w, later[k].to .. " = k" .. k .. "[round];\n") end
  put(w, "}\n")
end

local function write_bodies(w, typed)
  local ranges, outside = w.check and range_tests.write(typed, w.block), outside_of(typed)
  put(w, "bool fast = true, near = true, some = false;\n")
  write_round(w, typed, nil, true)
  put(w, "some |= in" .. (w.joined and ", fast &= in" or "") .. ";\n" .. (ranges and ranges.text or "") .. "}\n" .. (w.joined and "" or "if (!some) return;\n") .. "if (fast) {\n")
  w.fast, w.inside, w.copy, w.wanted = ranges and true or false, ranges and ranges.inside or {}, 2, {}
  write_later(w, typed, next(w.stops) and "1" or "4")
  put(w, "} else {\n")
  w.fast, w.copy, w.wanted, w.line, w.outside = false, 1, {}, nil, true
  if w.accesses > 3 then w.apart = "apart_" end
  write_rounds(w, typed, "1", outside)
  put(w, "}\n")
end

-- The kernel of a GPU whose threads do several places each. Of a block that joins them the first thread writes, unless its block
-- is one that was left over.
local function write_several(w, typed, head)
  local first = kernel.slots(typed)
  w.rounds = w.joined and rounds_of_join or rounds_of_flat
  w.of_block = "(blockIdx.x * " .. w.rounds .. "u + round)"
  local inner = written(w, write_bodies, typed)
  put(w, head)
  write_looks(w, true, inner)
  write_operands(w, typed)
  write_none(w, typed, "r")
  if w.joined then write_joins(w, typed) end
  put(w, inner)
  if w.joined then
    for n = 1, typed.results do put(w, "r" .. n .. " = tk_join(r" .. n .. ", t, join" .. n .. ");\n") end
    put(w, "if (t != 0 || !some) return;\nconst tide_i at = (blockIdx.z * 65535ll + blockIdx.y) * gridDim.x + blockIdx.x;\n")
    for n = 1, typed.results do
      local x = storage[result_of(typed, n).dtype]
      put(w, "((" .. x .. " *)s[" .. first[#typed.operands - typed.results + n] .. "])[at] = (" .. x .. ")r" .. n .. ";\n")
    end
  end
  put(w, "}\n")
end

-- The writer of a text, at its begin.
local function begin(typed, opts, host)
  local w = {
    out = {}, typed = typed, host = host, check = opts.check ~= false, clear = opts.clear, small = opts.small, many = opts.many, units = opts.unit, plain = opts.plain, ndims = {}, sums = {}, wanted = {}, copy = 1, inside = {}, wraps = {}, sure = {}, decided = {}, accesses = 0, apart = "",
    block = opts.block or (typed.ndim == 1 and { 256 } or typed.ndim == 2 and { 1, 256 } or { 1, 1, 256 }),
  }
  w.threads, w.stops, w.turns = 1, loop_stops.find(typed.body), "0u"
  w.meets = typed.barriers and statements.meets(typed) or nil
  for d = 1, typed.ndim do w.threads = w.threads * w.block[d] end
  -- what sums over a block is known before the body is written
  build.each(typed.body, function(n)
    if n.op == "block_sum" or n.op == "warp_sum" then w.sums[kinds[typed.vars[n.var].type]] = true end
  end)
  return w
end

local function finish(w, typed, opts, host)
  local _, slots = kernel.slots(typed)
  local body = written(w, write_tables, typed) .. join(w.out)
  local bounds = w.threads .. (w.crowd and w.threads >= 64 and ", " .. (w.threads > 1280 // 2 and 1 or 1280 // w.threads) or "")
  return prelude.write({
    bounds = bounds,
    host = host, float = typed.float, slots = slots, threads = w.threads, small = w.small, ndims = w.ndims, sums = w.sums, apart = kernel.mail_apart, meets = w.meets,
    leaves = not (host or w.rounds or typed.barriers or typed.atomics or next(w.sums)),
    random = w.random, index = kernel.mail_index, zero = kernel.mail_zero, few = kernel.few(typed.ndim), stopped = kernel.mail_stopped, stops = next(w.stops) ~= nil or w.late,
  }, body) .. body
end

local function device_text(typed, opts)
  local w = begin(typed, opts)
  local head = "extern \"C\" __global__ void __launch_bounds__(TIDE_BOUNDS) tide_kernel(const __grid_constant__ tide_slots s) {\nTIDE_WAIT\nconst unsigned t = threadIdx.x;\n"
  w.joined = is_joined(typed, opts) and opts.reduce
  if w.joined or not opts.reduce and flat.is_flat(typed) then write_several(w, typed, head) else write_thread(w, typed, head, "blockIdx.x", true) end
  return finish(w, typed, opts, false), w
end

-- Threads that wait for each other.
local function turns_text(typed, opts)
  local w = begin(typed, opts, true)
  write_thread(w, typed, "static void tide_thread(const void *packed, unsigned t) {\nTIDE_S s = (TIDE_S)packed;\n"
    .. "threadIdx = {t, 0, 0};\n", "blockIdx.x")
  put(w, "static int tide_loop(const void *packed, const unsigned *dims, long long begin, long long end) {\n"
    .. "for (long long b = begin; b < end; b++) {\nblockIdx = {(unsigned)b, 0, 0};\n"
    .. "if (int rc = tide_hook->block(tide_hook->self, " .. w.threads .. ", tide_thread, packed)) return rc;\n}\nreturn 0;\n}\n"
    .. "TIDE_KERNEL(tide_loop)\n")
  return finish(w, typed, opts, true), w
end

-- ---- a run of places on the CPU ----

-- How many places of the last dimension a launch counts as one: a part of a grid is not smaller. Where a place has a loop
-- it is worth a thread sooner.
local most_places = 4096
function M.run(typed)
  return build.any(typed.body, function(n) return n.op == "loop" or n.op == "for" end) and 256 or most_places
end

local own_elements, own_rounds = 2048, 8 -- of a tensor at most; places of a part for each of them at least

-- A part of a grid that adds to elements of its own works on other slots: these hold the addresses of its elements.
local function write_own(w, typed, places)
  local first, slots = kernel.slots(typed)
  local sum, tests, begins, ends = {}, {}, {}, {}
  for j = 1, #w.adds do
    local k = w.adds[j]
    local x, n = typed.operands[k], "few" .. j
    local at, kept = first[k], storage[x.dtype]
    sum[j] = n
    put(w, "const tide_i " .. n .. " = tk_few(s + " .. at .. ", " .. x.ndim .. ", " .. own_elements .. "), from" .. j .. " = s[" .. at .. "], upto" .. j .. " = from"
      .. j .. " + " .. n .. " * (tide_i)sizeof(" .. kept .. ");\n")
    tests[#tests + 1] = "&& " .. n
    for other = 1, #typed.operands do
      local y = typed.operands[other]
      if other ~= k and y.kind == "tensor" then
        tests[#tests + 1] = "&& tk_apart(s + " .. first[other] .. ", " .. y.ndim .. ", sizeof(" .. storage[y.dtype] .. "), from" .. j .. ", upto" .. j .. ")"
      end
    end
    begins[j] = "slots[" .. at .. "] = (tide_i)mine" .. j .. ";\nmemset(mine" .. j .. ", 0, (size_t)(upto" .. j .. " - from" .. j .. "));\n"
    ends[j] = "for (tide_i e = 0; own && e < " .. n .. "; e++)\n  if (mine" .. j .. "[e] != 0) tk_atomic_add((" .. kept .. " *)from" .. j .. " + e, mine" .. j .. "[e]);\n"
    put(w, kept .. " mine" .. j .. "[" .. own_elements .. "];\n")
  end
  put(w, "long long slots[" .. slots .. "];\nconst bool own = (end - begin) * " .. places .. " >= " .. own_rounds .. " * (" .. join(sum, " + ") .. ") "
    .. join(tests, " ") .. ";\nif (own) {\nmemcpy(slots, packed, sizeof slots);\n" .. join(begins) .. "s = slots;\n}\n")
  return join(ends)
end

local function host_text(typed, opts)
  local w = begin(typed, opts, true)
  w.adds, w.adds_at = own.operands(typed)
  local owns = #w.adds > 0
  local ndim = typed.ndim
  local run, places = { 1, 1, 1 }, M.run(typed)
  run[ndim] = places
  w.block = run
  local ranges = range_tests.write(typed)
  local declared, operands, place = written(w, write_vars, typed), written(w, write_operands, typed), {}
  for d = 1, ndim - 1 do place[d] = "const tide_x i" .. d .. " = first" .. d .. ";\n" end
  -- level 0: every index and condition is tested; 1: the indexes of the whole run lie inside; 2: conditions hold as well
  local function body(level)
    w.fast, w.unit, w.copy, w.wanted, w.line = level > 0, level > 0, level + 1, {}, nil
    w.inside, w.decided = ranges.inside, level == 2 and ranges.decided or {}
    local inner = written(w, write_all, typed.body)
    w.fast, w.unit = false, false
    return "#pragma GCC ivdep\nfor (tide_x i" .. ndim .. " = from; i" .. ndim .. " <= upto; i" .. ndim .. "++) {\n"
      .. declared .. inner .. end_line(w) .. "}\n"
  end
  local slow, quick, straight = body(0), ranges.any and body(1), ranges.any and next(ranges.decided) and body(2)
  put(w, "TIDE_FN void tide_run(TIDE_S s" .. (ndim > 1 and ", tide_x first1" or "") .. (ndim > 2 and ", tide_x first2" or "")
    .. ", tide_x from, tide_x upto, int level" .. (owns and ", bool own" or "") .. ") {\n" .. (next(w.stops) and "int tk_left = TIDE_ROUNDS;\n" or "") .. operands .. join(place))
  if straight then put(w, "if (level == 2) {\n" .. straight .. "return;\n}\n") end
  if quick then put(w, "if (level) {\n" .. quick .. "return;\n}\n") end
  put(w, slow .. "}\n")
  local passed = (ndim > 1 and ", first1" or "") .. (ndim > 2 and ", first2" or "")
  local params = (ndim > 1 and ", tide_x first1" or "") .. (ndim > 2 and ", tide_x first2" or "")
  if quick then
    put(w, "static int tide_level(TIDE_S s" .. params .. ", tide_x from, tide_x upto) {\n" .. operands
      .. "bool fast = true, holds = " .. (straight and "true" or "false") .. ";\n" .. ranges.text .. "return fast + (fast & holds);\n}\n")
  end
  put(w, "static int tide_loop(const void *packed, const unsigned *dims, long long begin, long long end) {\nTIDE_S s = (TIDE_S)packed;\n")
  local ends, passes = owns and write_own(w, typed, places) or "", owns and ", own);\n" or ");\n"
  put(w, "for (long long b = begin, many; b < end; b += many) {\nlong long rest = b, runs = (s[" .. ndim - 1 .. "] + " .. places - 1 .. ") / " .. places
    .. ", first = rest % runs;\nmany = runs - first < end - b ? runs - first : end - b;\n"
    .. "if (many > " .. most_places // places .. ") many = " .. most_places // places .. ";\n"
    .. "const long long size = s[" .. ndim - 1 .. "], least = first * " .. places .. ", most = least + many * " .. places .. ";\n"
    .. "const tide_x from = (tide_x)(least + 1), upto = (tide_x)(most < size ? most : size);\n"
    .. "rest /= runs;\n")
  if ndim == 2 then put(w, "const tide_x first1 = (tide_x)rest + 1;\n") end
  if ndim == 3 then put(w, "const tide_x first1 = (tide_x)(rest / s[1]) + 1, first2 = (tide_x)(rest % s[1]) + 1;\n") end
  if quick then
    local function all(a, z) return "tide_run(s" .. passed .. ", " .. a .. ", " .. z .. ", tide_level(s" .. passed .. ", " .. a .. ", " .. z .. ")" .. passes end
    put(w, "const int level = tide_level(s" .. passed .. ", from, upto);\n"
      .. "if (level == " .. (straight and 2 or 1) .. " || upto - from < 8) { tide_run(s" .. passed .. ", from, upto, level" .. (owns and ", own" or "") .. "); continue; }\n"
      .. "tide_run(s" .. passed .. ", from, from, 0" .. passes .. all("from + 1", "upto - 1") .. "tide_run(s" .. passed .. ", upto, upto, 0" .. passes)
  else
    put(w, "tide_run(s" .. passed .. ", from, upto, 0" .. passes)
  end
  put(w, "}\n" .. ends .. "return 0;\n}\nTIDE_KERNEL(tide_loop)\n")
  return finish(w, typed, opts, true), w
end

-- M.write(typed, opts, gpu): the text for GPUs, or for the CPU. opts.plain leaves out from which lines of the script it
-- comes, so that a kernel that has moved is the same text; opts.reduce: how its results are joined. It gives {text =,
-- block =, waits =, rounds =}. Of a GPU: waits: the text waits itself for the kernel before it, so that it may be launched
-- while that one ends; rounds: how many places a thread of it does; where results are reduced it writes one for each block.
function M.write(typed, opts, gpu)
  local write = gpu and device_text or typed.barriers and turns_text or host_text
  local text, w = write(typed, opts)
  return { text = text, block = w.block, waits = true, rounds = w.rounds or 1 }
end
