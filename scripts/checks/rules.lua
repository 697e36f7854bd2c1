-- The rules of the house that a search of the text can check. Prints `file:line: rule`, exits with 1 when one is broken.
-- usage, in the source tree: tide scripts/checks/rules.lua       (any Lua 5.4 will do)

local failures = 0
local function complain(path, line, text)
  failures = failures + 1
  print(("%s:%d: %s"):format(path, line, text))
end

local function list(command)
  local out = {}
  for path in io.popen(command):lines() do out[#out + 1] = path end
  table.sort(out)
  return out
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

-- Comments and literals become blanks of the same shape, so that what is found stands in the code, on its own line.
local function blank(text) return (text:gsub("[^\n]", " ")) end

local function code_of(text, keep_strings)
  local out, at = {}, 1
  while true do
    local from = text:find("[/\"']", at)
    if not from then break end
    local two, to = text:sub(from, from + 1)
    if two == "/*" then
      to = select(2, text:find("*/", from + 2, true)) or #text
    elseif two == "//" then
      to = (text:find("\n", from, true) or #text + 1) - 1
    elseif two:sub(1, 1) ~= "/" then
      local quote = two:sub(1, 1)
      to = from + 1
      while to < #text and text:sub(to, to) ~= quote do to = to + (text:sub(to, to) == "\\" and 2 or 1) end
    end
    out[#out + 1] = text:sub(at, from - 1)
    if not to then
      out[#out + 1], at = "/", from + 1
    else
      local piece = text:sub(from, to)
      local literal = two:sub(1, 1) ~= "/"
      out[#out + 1], at = (literal and keep_strings) and piece or blank(piece), to + 1
    end
  end
  return table.concat(out) .. text:sub(at)
end

local function each_line(text, visit)
  local number = 0
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    visit(line, number)
  end
end

local function under(path, ...)
  for _, room in ipairs { ... } do
    if path:sub(1, #room) == room then return true end
  end
  return false
end

local in_core = function(path) return under(path, "core/") end

-- ---- what a file may include ----
local lua_headers = { ["lua.h"] = true, ["lauxlib.h"] = true, ["lualib.h"] = true, ["luaconf.h"] = true }
local cuda_prefixes = { "cuda", "cublas", "cufft", "cusolver", "curand", "cusparse", "cudnn", "cub/", "cupti", "nccl",
  "nvml", "nvrtc", "nvToolsExt", "nvtx" }

local function is_cuda(header)
  for _, prefix in ipairs(cuda_prefixes) do
    if header:sub(1, #prefix) == prefix then return header:match("%.h[p]*$") or header:match("%.cuh$") end
  end
  return false
end

-- ---- rooms include the faces of those on lower floors ----
local floors = dofile("scripts/checks/floors.lua")
local trees = { core = {}, lua_bindings = {} } -- a room by its name
for _, room in ipairs(floors) do trees.core[room[1]] = room end
for _, room in ipairs(floors.bindings) do trees.lua_bindings[room[1]] = room end

local function has(list, what)
  for _, each in ipairs(list) do
    if each == what then return true end
  end
  return false
end

local function check_floor(path, line, header)
  local top, inside = path:match "^([%w_]+)/(.*)"
  local rooms = trees[top]
  local function room_of(name)
    local wide, narrow = name:match("^(%w+/%w+)/"), name:match("^(%w+)/")
    return rooms[wide] and wide or rooms[narrow] and narrow
  end
  local from, to = room_of(inside), room_of(header)
  if not from or not to or from == to then return end
  if not has(rooms[from].calls, to) then
    complain(path, line, ("%s: %s stands on no floor above it"):format(header, from))
  elseif rooms[to].face and not has(rooms[to].face, header:sub(#to + 2)) then
    complain(path, line, ("%s: other rooms include of %s only %s"):format(header, to, table.concat(rooms[to].face, ", ")))
  end
end

-- What only POSIX has; pthread.h and sched.h are everywhere.
local posix_headers = { ["unistd.h"] = true, ["fcntl.h"] = true, ["dirent.h"] = true, ["dlfcn.h"] = true, ["poll.h"] = true,
  ["signal.h"] = true, ["spawn.h"] = true, ["ucontext.h"] = true, ["termios.h"] = true }

local function is_posix(header)
  return posix_headers[header] or (header:match("^sys/") and header ~= "sys/types.h")
end

local function check_include(path, line, header, quoted)
  if in_core(path) and is_posix(header) and not under(path, "core/os/", "core/backend/cuda/") then
    complain(path, line, header .. " outside core/os: the rest of core is for every system")
  end
  if under(path, "core/", "lua_bindings/") and quoted then check_floor(path, line, header) end
  if lua_headers[header] and not under(path, "lua_bindings/", "scripts/examples/host/") then
    complain(path, line, header .. " outside lua_bindings: core knows no Lua")
  end
  if is_cuda(header) and not under(path, "core/backend/cuda/", "kernels/") then
    complain(path, line, header .. " outside core/backend/cuda and kernels")
  end
  if header:match("^readline/") or header:match("^fftw") or header:match("^gsl/") then
    complain(path, line, header .. " belongs to a library under the GPL")
  end
  if under(path, "lua_bindings/") and quoted and not header:match "^tide/" and not lua_headers[header] then
    local own = not header:match "%.%./" and (io.open(path:match "^.*/" .. header) or io.open("lua_bindings/" .. header))
    if own then
      own:close()
    else
      complain(path, line, header .. ": the bindings include only tide/*.h, Lua and their own headers")
    end
  end
  if under(path, "core/include/") and quoted and not header:match("^tide/") then
    complain(path, line, header .. ": a public header includes only public headers")
  end
end

-- ---- words that do not belong in a room ----
-- {where, Lua pattern over code, what is wrong}; a word boundary is %f[%w_].
local outside_backend = function(path) return in_core(path) and not under(path, "core/backend/") end
local library = function(path) return under(path, "core/", "kernels/", "lua_bindings/") end
local compute = function(path) return under(path, "core/", "kernels/") end
local words = {
  { compute, "%f[%w_]v?printf%s*%(", "core never prints: use the log hook" },
  { compute, "%f[%w_]puts%s*%(", "core never prints: use the log hook" },
  { compute, "%f[%w_]putchar%s*%(", "core never prints: use the log hook" },
  { compute, "%f[%w_]perror%s*%(", "core never prints: use the log hook" },
  { compute, "%f[%w_]stderr%f[^%w_]", "core never prints: use the log hook" },
  { compute, "%f[%w_]stdout%f[^%w_]", "core never prints: use the log hook" },
  { compute, "%f[%w_]abort%s*%(", "core never ends the process: return a status" },
  { compute, "%f[%w_]_?exit%s*%(", "core never ends the process: return a status" },
  { compute, "%f[%w_]longjmp%s*%(", "core never jumps out of a frame: return a status" },
  { outside_backend, "%f[%w_]tide_+backend_cuda", "a backend registers itself, nothing else names it" },
  { library, "%f[%w_]strcpy%s*%(", "unbounded copy: use snprintf or memcpy" },
  { library, "%f[%w_]sprintf%s*%(", "unbounded copy: use snprintf" },
}

-- clang-format breaks a comment whose last line is a little too long before its end, and makes pointers of products in
-- lists that it takes for declarations.
local function check_comment_ends(path, text)
  each_line(text, function(line, number)
    if line:find "^%s+%*/$" then complain(path, number, "the end of a comment alone on its line: break it earlier") end
  end)
end

local function check_list(path)
  local text = read(path)
  check_comment_ends(path, text)
  each_line(code_of(text, false), function(line, number)
    if not line:find "^%u+%(" then return end
    if line:find "[%w_)%]] &&[%w_(!]" or line:find "[%w_)%]] %*[%w_(]" then
      complain(path, number, "an operator without a blank behind it")
    end
  end)
end

local function check_code(path)
  local text = read(path)
  each_line(code_of(text, true), function(line, number)
    local open, header = line:match('^%s*#%s*include%s*([<"])([^>"]+)[>"]')
    if header then check_include(path, number, header, open == '"') end
  end)
  each_line(code_of(text, false), function(line, number)
    for _, rule in ipairs(words) do
      if rule[1](path) and line:find(rule[2]) then complain(path, number, rule[3]) end
    end
    if line:find "[%w_)%]] &&[%w_(!]" then complain(path, number, "an && that the formatter took for a reference") end
  end)
  check_comment_ends(path, text)
  if path:match("%.c$") and not text:match("^%s*/%*") then
    complain(path, 1, "no comment on the design and the invariant at the top")
  end
end

-- ---- length, leftovers, trailing blanks: every text file ----
local marks = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" }
local function check_text(path)
  local lines = 0
  each_line(read(path):gsub("\n$", ""), function(line, number)
    lines = number
    for _, mark in ipairs(marks) do
      if line:find("%f[%w_]" .. mark .. "%f[^%w_]") then complain(path, number, "a " .. mark .. " is left") end
    end
    if line:find("[ \t]$") and not path:match("%.md$") then complain(path, number, "blanks at the end of the line") end
    if line:find("\t") and not path:match("%.tsv$") then complain(path, number, "a tab") end
  end)
  local is_code = path:match("%.[ch]$") or path:match("%.cuh?$") or path:match("%.lua$")
  if is_code and lines > 700 then
    complain(path, lines, ("%d lines: split it (600 is the aim, 700 the end)"):format(lines))
  elseif is_code and lines > 600 then
    print(("%s:%d: note: %d lines, over the aim of 600"):format(path, lines, lines))
  end
end

-- ---- every row of the lists has what goes with it ----
local function rows(path, pattern, visit)
  each_line(read(path), function(line, number)
    local name = line:match(pattern)
    if name then visit(name, line, number) end
  end)
end

local function names_word(text, word) return text:find("%f[%w_]" .. word .. "%f[^%w_]") ~= nil end

-- An op and a reduction: help and a row in the specs.
local function check_documented(path, pattern, spec)
  local text = read(spec)
  rows(path, pattern, function(name, line, number)
    if not line:match('"[^"]+"%)%s*$') then complain(path, number, name .. " has no doc string") end
    if not names_word(text, name) then complain(path, number, name .. " has no row in " .. spec) end
  end)
end

-- A kernel: its struct, with a comment that says what it does, and a spec that names it or that is named here.
local specs_of = { locate = "spec/tensor/index_spec.lua", verify = "spec/tensor/ops_spec.lua" }
local function check_kernels()
  local path, specs = "core/backend/kernel.def", ""
  local plan = read "core/base/plan.h" .. read "core/base/fft_plan.h"
  for _, spec in ipairs(list "ls spec/*/*.lua spec/c/*.[ch] spec/c/*/*.[ch]") do specs = specs .. read(spec) end
  rows(path, "^KERNEL%(([%w_]+),", function(name, line, number)
    local args = line:match "^KERNEL%([%w_]+, ([%w_]+)"
    if not names_word(plan, "struct " .. args) then complain(path, number, args .. " is no struct of core/base/plan.h") end
    if not specs_of[name] and not names_word(specs, name) then complain(path, number, name .. " is named in no spec") end
  end)
end

local function check_lists()
  check_documented("core/include/tide/op.def", "^%u[%u_]*%(([%l%d_]+),", "spec/tensor/ops_spec.lua")
  check_documented("core/include/tide/reduction.def", "^REDUCTION%([%u_]+, ([%l_]+),", "spec/tensor/reduce_spec.lua")
  check_kernels()
end

local function check_flags()
  for _, path in ipairs(list "find CMakeLists.txt scripts/cmake -type f") do
    each_line(read(path), function(line, number)
      for _, flag in ipairs { "-march=native", "-mtune=native", "-ffast-math", "-use_fast_math", "-Ofast" } do
        local text = line:gsub("%-%-Ofast%-compile", "") -- nvcc's, which leaves optimisations out
        if text:find(flag, 1, true) and not line:match("^%s*#") then complain(path, number, flag .. " is not allowed") end
      end
    end)
  end
end

-- A case that leaves its rest out would look as if it had succeeded: it is pending, with a reason.
local function check_cases(path)
  local inside -- the indent of its lines
  each_line(read(path), function(line, number)
    local indent = line:match "^( *)it%(.*function%(%)$"
    if indent then
      inside = indent .. "  "
    elseif inside and line == inside:sub(3) .. "end)" then
      inside = nil
    elseif inside and line:match("^" .. inside .. "if .* then return end") then
      complain(path, number, "a case that returns early says why: return pending \"...\"")
    end
  end)
end

-- A function of the mathematics that C, CUDA and texts of kernels share has one definition, in these headers. Of complex
-- numbers (C) and vectors there are others.
local shared = { "mathematics/helpers_template", "mathematics/kernel_numbers", "mathematics/philox", "random", "special" }
local suffixes = { "", "_i32", "_i64", "_f32", "_f64", "_##s", "_##S" }
local function check_defined_once()
  local home, count = {}, 0
  for _, name in ipairs(shared) do
    local path = "core/base/" .. name .. ".h"
    each_line(read(path), function(line)
      local helper = line:match "^HELPER[_%u]* [%w ]- ?H%(([%w_]+)%)"
      local fn = line:match "^%s*TIDE_FN[_%u]* [%w_ ]- ?([%w_]+)%("
      if helper or fn then count = count + 1 end
      if fn then home[fn] = home[fn] or path end
      for _, suffix in ipairs(helper and suffixes or {}) do home["tide_" .. helper .. suffix] = path end
    end)
  end
  if count < 60 then complain("core/base", 1, "the helpers were not found: this check sees nothing") end
  for _, path in ipairs(list [[find core kernels lua_bindings -type f -name '*.[ch]' -o -name '*.cu*' -o -name '*.cxx' -o -name '*.lua']]) do
    each_line(read(path), function(line, number)
      for before, name, params in line:gmatch "([%w_]+)[%s*&]+([%w_#]+)(%b())[^;{]*{" do
        if home[name] and home[name] ~= path and before ~= "return" and before ~= "else" and not params:find "^%(C " and not params:find "_Complex" then
          complain(path, number, name .. " has its definition in " .. home[name])
        end
      end
    end)
  end
end

for _, path in ipairs(list [[find core kernels lua_bindings -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh']]) do
  check_code(path)
end
check_defined_once()
for _, path in ipairs(list "ls core/include/tide/*.def") do check_list(path) end
for _, path in ipairs(list "find spec scripts -name '*.[ch]'") do check_comment_ends(path, read(path)) end
for _, path in ipairs(list [[find core kernels lua_bindings scripts spec .ci README.md CMakeLists.txt -type f \
    ! -name '*.png' ! -name '*.np[yz]' ! -name '*.safetensors' ! -name '*.bin' ! -name '*.csv' ! -name '*.pyc']]) do
  check_text(path)
end
for _, path in ipairs(list "ls spec/*/*_spec.lua") do check_cases(path) end
check_lists()
check_flags()
print(failures == 0 and "rules: all kept" or ("rules: %d broken"):format(failures))
os.exit(failures == 0 and 0 or 1)
