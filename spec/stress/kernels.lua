-- Random kernels in Lua (spec/support/kernel_programs.lua), compiled or run by the block interpreter, beside plain Lua:
-- integers and booleans must be equal, floats too where IEEE 754 defines the operations, else within rounding.
--
--   tide spec/stress/kernels.lua [--device cpu|cuda] [--compiled] [--keep] [--text] FIRST [LAST]
--
-- A seed gives the same program each time; --text prints it. Without --compiled a kernel is called once, at once, which the
-- block interpreter answers where there is no compiler (TIDE_CXX=/nowhere, TIDE_KERNEL_CACHE=0) or it is not done yet. --compiled waits for the
-- compiler first. --keep goes on behind a difference and counts them.

local here = arg[0]:match "^(.*)/stress/" or "spec"
package.path = here .. "/../?.lua;" .. package.path
local tide = require "tide"
local programs = require "spec.support.kernel_programs"

local options, seeds = { device = "cpu" }, {}
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match "^%-%-(%a+)$"
    if name == "device" then
      i = i + 1
      options.device = arg[i]
    elseif name == "compiled" or name == "keep" or name == "text" then
      options[name] = true
    else
      seeds[#seeds + 1] = assert(math.tointeger(tonumber(arg[i])), "kernels.lua: a seed is an integer, got " .. arg[i])
    end
    i = i + 1
  end
end
local first, last = seeds[1] or 1, seeds[2] or seeds[1] or 1

local function compiled(program)
  local k = tide.kernel(program.fn, program.options)
  if options.compiled then -- the first call says for which dtypes
    programs.run(program, k, options.device)
    k:wait()
  end
  return programs.run(program, k, options.device)
end

local failed = 0
for seed = first, last do
  local program = programs.program(seed, tide, options.device ~= "cpu")
  if options.text then print(program.text) end
  local expected = programs.run(program, function(grid, ...)
    local args = { ... }
    args[#args + 1] = program.options
    return tide.kernel.interpret(program.fn, grid, table.unpack(args))
  end)
  local ok, got = pcall(compiled, program)
  local what = not ok and tostring(got) or programs.compare(program, expected, got)
  if what then
    failed = failed + 1
    io.stderr:write(("kernels: seed %d: %s\nkernels: once more, with the text: %s spec/stress/kernels.lua --device %s%s --text %d\n"):format(
      seed, what, arg[-1], options.device, options.compiled and " --compiled" or "", seed))
    if not options.keep then os.exit(1, true) end
  end
end
print(("kernels: %d programs on %s%s, %d differ from plain Lua"):format(last - first + 1, options.device, options.compiled and ", compiled" or "", failed))
os.exit(failed == 0, true)
