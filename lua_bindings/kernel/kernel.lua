-- tide.kernel: kernels written in Lua: from a function and the kinds of its arguments to what specialize.c keeps of it.
--
-- A text is parsed once and compiled once for each new combination of kinds (compile). `layout` is one of them: what is known
-- of grid and tensors, as tide_kernel_layout counts it: 1, all sizes and offsets are computed in 32 bits; 2, elements are also
-- contiguous along the last dims; 3 and 4, the same for large grids.
--
-- Invariant: a kernel has a body that was read as a whole; an error in another one changes nothing.

local M = ...
local build, finder, types, tidy, cxx, code = use "kernel/build", use "kernel/find", use "kernel/types", use "kernel/tidy", use "kernel/text", use "kernel/code"
local function_text, objection = use("kernel/source_text.c", "function_text", "objection")
local dtype_name, env_of, runs_native, kernel_add, specials_ready = use("kernel/specialize.c", "dtype_name", "env_of", "runs_native", "kernel_add", "specials_ready")
local reduction_of, kernel_new, kernel_drop, default_device = use("kernel/specialize.c", "reduction_of", "kernel_new", "kernel_drop", "default_device")
local few_blocks = use("kernel/specialize.c", "few_blocks")
local function_of = use("kernel/oracle.c", "function_of")

-- Has a launch for a grid of ndim sizes few blocks? One comparison, as kernel_launch.c makes it.
function M.few(ndim) return (ndim > 1 and "gridDim.y <= " or "gridDim.x <= ") .. few_blocks(ndim) end
M.mail_index, M.mail_zero, M.mail_stopped, M.mail_apart = 2, 3, 4, 5 -- as TIDE__MAIL_PLACE, _ZERO, _STOPPED and _APART in core

-- M.slots(typed): where each operand begins among the slots, and how many there are.
function M.slots(typed)
  local first, at = {}, 7 + #typed.sites
  for k = 1, #typed.operands do
    local x = typed.operands[k]
    first[k] = at
    at = at + (x.kind == "tensor" and 1 + 2 * x.ndim or 1)
  end
  return first, at
end

-- ---- the text ----

local function strip(name)
  local mark = sub(name, 1, 1)
  return (mark == "@" or mark == "=") and sub(name, 2) or "kernel"
end

-- M.source(fn): its text, for the front end. A string is the text itself.
function M.source(fn)
  if type(fn) == "string" then return { text = fn, name = "kernel", chunk = "=kernel", line = 1 } end
  if type(fn) ~= "function" then refuse(fn, "fn", "a function of Lua, or its text") end
  local text, name, line = function_text(fn)
  if not text then
    fail("ValueError", "kernel: the text of the function cannot be had: " .. name .. ", expected the text as a string")
  end
  return { text = text, name = strip(name), chunk = name, line = line, fn = fn }
end

-- The syntax of the text, which is read once and as a whole.
local function parse(source)
  source.syntax = source.syntax or finder.syntax(source)
  return source.syntax
end

-- ---- options ----

local function sizes_of(block)
  if block == nil then return end
  if is_integer(block) then block = { block } end
  if type(block) ~= "table" then refuse(block, "block", "an integer or a table of one to three") end
  local sizes, threads = {}, 1
  for d = 1, rawlen(block) do
    local n = rawget(block, d)
    if not is_integer(n) or n < 1 or n > 1024 then refuse(n, "block", "1 to 1024 threads") end
    sizes[d], threads = n, threads * n
  end
  if #sizes < 1 or #sizes > 3 then refuse(block, "block", "an integer or a table of one to three") end
  if threads > 1024 then
    fail("ValueError", "kernel: block: got " .. threads .. " threads, expected at most 1024")
  end
  return sizes
end

local function float_of(float)
  if float == nil or float == "float32" or float == "float64" then return float end
  fail("DtypeError", "kernel: float: got " .. float .. ", expected float32 or float64")
end

local any_shape = 255 -- LTIDE_ANY_SHAPE

-- {"float32", 2, tide.int64, "number"}: a tensor of two dims, one of one, a float.
local function read_types(list)
  if type(list) ~= "table" then refuse(list, "types", "a list: dtypes, each with a number of dims, 'number', 'integer' or 'boolean'") end
  local kinds, k, n = {}, 1, rawlen(list)
  while k <= n do
    local word = rawget(list, k)
    if word == "number" or word == "integer" or word == "boolean" then
      kinds[#kinds + 1] = { kind = word == "number" and "float" or word }
    else
      local dims = rawget(list, k + 1)
      if is_integer(dims) then k = k + 1 else dims = 1 end
      if dims < 0 or dims > 8 then refuse(dims, "types", "0 to 8 dims") end
      kinds[#kinds + 1] = { kind = "tensor", dtype = dtype_name(word, "types"), ndim = dims, like = any_shape }
    end
    k = k + 1
  end
  return kinds
end

-- ---- compiling ----

local function default_block(self, ndim)
  local block = self.block
  if not block then return end
  if #block ~= ndim then
    fail("ValueError", "kernel: block: got " .. #block .. (#block == 1 and " size" or " sizes") .. ", expected " .. ndim .. ", as the grid has")
  end
  return block
end

-- Where what a function has from outside lies, as kernel.h has it.
local function place_of(from, places)
  local place = { at = #places + 1, upvalue = from.upvalue or 0, fields = 0 }
  places[#places + 1] = from.global and (from.env or env_of(from.of)) or from.of
  if from.global then places[#places + 1] = from.global end
  for k = 1, from.path and #from.path or 0 do
    places[#places + 1] = from.path[k]
    place.fields = k
  end
  return place
end

local function outers_of(typed, args)
  local outers, places = {}, {}
  for k = args + 1, #typed.operands - typed.results do outers[#outers + 1] = place_of(typed.operands[k].from, places) end
  for k = 1, #typed.names do
    local place = place_of(typed.names[k].from, places)
    place.fixed = typed.names[k].value
    outers[#outers + 1] = place
  end
  for k = 1, #outers do places[#places + 1] = outers[k].fixed end -- kept alive
  return outers, places
end

local ordered = { min = true, max = true, band = true, bor = true, bxor = true }

-- Does it matter which thread is first?
local function is_unordered(typed)
  return build.any(typed.body, function(n)
    if n.op ~= "atomic" or ordered[n.kind] then return false end
    local of = n.shared and typed.shared[n.shared] or typed.operands[n.tensor]
    return n.kind == "exchange" or n.kind == "cas" or find(of.dtype, "float") ~= nil
  end)
end

local function lines_of(typed)
  local lines = {}
  for k = 1, #typed.sites do lines[k] = typed.sites[k].line end
  return lines
end

-- What a script that may not run machine code makes is as large at most as a compiler is done with soon.
local most_text = 262144

-- The text of a typed tree, for the CPU with its code for the interpreter, and what a launch has to know of it.
local function emit(self, typed, opts, gpu)
  if self.reduce and typed.results == 0 then
    fail("ValueError", "kernel: " .. self.name .. ": reduce: got a function that returns nothing, expected one that returns what is reduced")
  end
  local made = cxx.write(typed, opts, gpu)
  if opts.clear and #made.text > most_text then
    fail("ValueError", self.name .. ": the kernel is too long, got " .. #made.text .. " bytes of C++, expected at most " .. most_text)
  end
  made.code, made.turns, made.lines = not gpu and code.write(typed, opts) or nil, typed.barriers, lines_of(typed)
  made.unordered = typed.atomics and is_unordered(typed)
  return made
end

-- The text knows of an argument that its sizes and strides are those of another, and the size of rows that lie side by side
-- and are read by numbers alone, the last of them the rows' size: its own are then the same words as the other's, or numbers.
local most_row = 16
local function shapes_of(typed, signature)
  local reads_to = {}
  local function look(n)
    local e = n.tensor and n.index and #n.index > 1 and n.index[#n.index]
    if not e then return end
    local last, place = reads_to[n.tensor], e.op == "const" and e.value or 0
    reads_to[n.tensor] = last ~= 0 and place > 0 and place <= most_row and (last and last > place and last or place) or 0
  end
  local function look_in(e)
    look(e)
    build.children(e, look_in)
  end
  build.each(typed.body, function(s)
    look(s)
    build.expressions(s, look_in)
  end)
  for k = 1, #signature do
    local x, kind = typed.operands[k], signature[k]
    x.like, x.reads_to = kind.like, reads_to[k]
    x.packed = kind.row and kind.row == reads_to[k] and 1 or 0
  end
end

-- One form of a kernel, as kernel_add takes it: for grids of ndim sizes, a layout, GPUs or the CPU, and the kinds of the arguments.
local function compile(self, source, ndim, layout, gpu, signature)
  local trusted, small = runs_native(), layout > 0
  local opts = { check = self.check ~= false or not trusted, clear = not trusted, small = small, unit = layout == 2 or layout == 4, many = layout > 2,
    block = default_block(self, ndim), plain = true, reduce = self.reduce }
  local syntax = parse(source)
  local tree = types.infer(syntax, { ndim = ndim, small = small, signature = signature, float = self.float })
  local refusal = not source.fn and objection((syntax.words[1] == "function" and "return " or "") .. source.text, source.name)
  if refusal then fail("ValueError", refusal) end -- ours, which say more, went first
  local typed = tidy.tree(tree)
  shapes_of(typed, signature)
  local made = emit(self, typed, opts, gpu)
  made.typed, made.opts, made.source, made.ndim, made.layout, made.gpu = typed, opts, source.chunk, ndim, layout, gpu
  made.signature, made.args, made.operands, made.results = signature, #signature, typed.operands, typed.results
  made.outers, made.places = outers_of(typed, #signature)
  return made
end

-- ---- what C calls ----

-- Said once of a kernel that leaves nothing behind: what it computed was to be returned, or written.
local function warn_of_nothing(self, made)
  for i = 1, #made.operands do
    if made.operands[i].writes then return end
  end
  if self.warned then return end
  self.warned = true
  warn("kernel: " .. self.name .. ": it gives nothing, expected x[i] = v for a tensor, or return v")
end

-- A call needs what is not there: kinds of its arguments, in `signature`.
function M.special(k, self, ndim, layout, gpu, signature)
  local made = compile(self, self.source, ndim, layout, gpu, signature)
  warn_of_nothing(self, made)
  local number = kernel_add(k, made)
  self.made[#self.made + 1] = { number = number, ndim = ndim, layout = layout, gpu = gpu, signature = signature }
  self.last = made
end

local function begin(k, self, list)
  local kinds = read_types(list)
  local ndim = #self.source.syntax.fn.params - #kinds
  if ndim < 1 or ndim > 3 then
    fail("ValueError", "kernel: types: got " .. #kinds .. " for a function of " .. #self.source.syntax.fn.params
      .. " parameters, expected one for each behind the place, which is one to three of them")
  end
  local _, gpu = default_device()
  M.special(k, self, ndim, 2, gpu, kinds)
  specials_ready(k)
end

-- The whole body is read before anything is compiled of it.
local function read_body(fn)
  local source = M.source(fn)
  parse(source)
  return source
end

-- tide.func(fn): what kernels call.
function M.func(fn)
  read_body(fn)
  return type(fn) == "string" and function_of(fn) or fn
end

function M.make(fn, opts)
  local source = read_body(fn)
  local reduce = opts.reduce
  if reduce ~= nil and not reduction_of(reduce) then refuse(reduce, "reduce", "'sum', 'prod', 'min' or 'max'") end
  if opts.check ~= nil and type(opts.check) ~= "boolean" then refuse(opts.check, "check", "true or false") end
  if opts.check == false and not runs_native() then
    fail("PermissionError", "kernel: check: got false, expected true: the host has not granted this script NATIVE")
  end
  local name = opts.name or source.name .. ":" .. source.line
  local self = { source = source, name = name, check = opts.check, float = float_of(opts.float), block = sizes_of(opts.block), reduce = reduce, made = {} }
  local k = kernel_new(self, name, reduce and reduction_of(reduce))
  if opts.types ~= nil then begin(k, self, opts.types) end
  return k
end

-- ---- methods ----

function M.replace(k, self, fn)
  local source, made = read_body(fn), {}
  for i = 1, #self.made do
    local old = self.made[i]
    made[i] = compile(self, source, old.ndim, old.layout, old.gpu, old.signature)
  end
  kernel_drop(k)
  self.source, self.made = source, {}
  for i = 1, #made do
    local new = made[i]
    self.made[i] = { number = kernel_add(k, new), ndim = new.ndim, layout = new.layout, gpu = new.gpu, signature = new.signature }
    self.last = new
  end
  return k
end

function M.text_of(k, self, device)
  local last = self.last
  if not last then fail("StateError", "source: nothing was compiled yet, expected a call before, or types=") end
  local opts = { check = last.opts.check, clear = last.opts.clear, small = last.opts.small, unit = last.opts.unit, many = last.opts.many, block = last.opts.block, reduce = last.opts.reduce }
  if device == nil then device = default_device() < 0 and "cpu" or "cuda" end
  if device ~= "cpu" and device ~= "cuda" then refuse(device, "device", "'cuda' or 'cpu'") end
  return cxx.write(last.typed, opts, device == "cuda").text
end
