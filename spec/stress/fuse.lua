-- Random functions (spec/support/fuse_programs.lua), fused and as they are, beside each other.
--
--   tide spec/stress/fuse.lua [--device cpu|cuda] [--compiled] [--keep] [--text] FIRST [LAST]
--
-- A seed gives the same function each time; --text prints it. Each runs fused six times: first, with other values, with
-- tensors of other sizes, and then with other numbers, with those and other sizes, and with the first numbers again;
-- --compiled waits for the kernels before the second. --keep goes on behind a difference and counts them.

local here = arg[0]:match "^(.*)/stress/" or "spec"
package.path = here .. "/../?.lua;" .. package.path
local tide = require "tide"
local programs = require "spec.support.fuse_programs"

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
      seeds[#seeds + 1] = assert(math.tointeger(tonumber(arg[i])), "fuse.lua: a seed is an integer, got " .. arg[i])
    end
    i = i + 1
  end
end
local first, last = seeds[1] or 1, seeds[2] or seeds[1] or 1

-- Both get arguments of their own, which they may write to; nil, or what is different.
local function difference(program, f, pass)
  local which = (pass == 3 or pass == 5) and "second" or "first"
  if pass == 4 or pass == 6 then programs.change_numbers(program) end
  local mine = programs.arguments(program, tide, options.device, which, pass)
  local its = programs.arguments(program, tide, options.device, which, pass)
  local expected, got = { program.fn(table.unpack(mine)) }, { f(table.unpack(its)) }
  return programs.compare(program.results, expected, got) or programs.compare(program.arguments, mine, its)
end

local failed, kernels = 0, 0
for seed = first, last do
  local program = programs.program(seed, tide)
  if options.text then print(program.text) end
  local f, what = tide.fuse(program.fn), nil
  for pass = 1, 6 do
    local ok, said = pcall(difference, program, f, pass)
    what = what or (said and ("call %d: %s"):format(pass, tostring(said)))
    if pass == 1 and options.compiled and ok then f:wait() end
  end
  kernels = kernels + #f:kernels()
  if options.text then f:explain() end
  if what then
    failed = failed + 1
    io.stderr:write(("fuse: seed %d: %s\nfuse: once more, with the text: %s spec/stress/fuse.lua --device %s%s --text %d\n"):format(
      seed, what, arg[-1], options.device, options.compiled and " --compiled" or "", seed))
    if not options.keep then os.exit(1, true) end
  end
end
print(("fuse: %d functions of %d kernels on %s%s, %d differ from what they are"):format(
  last - first + 1, kernels, options.device, options.compiled and ", compiled" or "", failed))
os.exit(failed == 0 and kernels > 0, true)
