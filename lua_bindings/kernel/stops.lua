-- Which loops of a kernel look now and then whether somebody wants it to end (text.lua).
--
-- A loop that counts from one constant to another, some dozens of times with all that such loops within it do, ends before
-- anybody would ask. Every other loop may go on, because of a number that a script gives or a size that it chooses.
--
-- One that goes round less than 32 times does not look either; one around it does.
--
-- Invariant: between two looks of a thread there are a bounded number of steps, whatever the kernel is given.

local M = ...
local build = use "kernel/build"
local most = 256 -- times, of loops that do not look

local waits = { barrier = true, block_sum = true, warp_sum = true }

-- M.takes_long(n): is it a loop, or do threads wait there?
function M.takes_long(n) return n.op == "for" or n.op == "loop" or waits[n.op] end

local function is_number(e) return e.op == "const" and type(e.value) == "number" end

-- How often the loop goes round, where constants say it, or nil.
function M.rounds(n)
  if n.op ~= "for" or not (is_number(n.from) and is_number(n.to) and is_number(n.step)) or n.step.value == 0 then return end
  local left = (n.to.value - n.from.value) / n.step.value + 1.0
  return left < 1 and 1.0 or left
end

-- How often anything in the list is done at most, once through; loops that look are added to `stops`.
local function look(list, stops)
  local all = 1.0
  for k = 1, #list do
    local n, times = list[k], 1.0
    if n.op == "if" then
      local yes, no = look(n.yes, stops), look(n.no, stops)
      times = yes > no and yes or no
    elseif n.body then
      times = look(n.body, stops)
      if n.op == "loop" or n.op == "for" then
        local own = M.rounds(n)
        if own and n.narrow and own * times <= most then times = own * times else stops[n], times = true, 1.0 end
      end
    end
    if times > all then all = times end
  end
  return all
end

-- M.find(body): {loop -> true}
function M.find(body)
  local stops = {}
  look(body, stops)
  return stops
end

-- How many statements there are; those of a loop by constants as often as they are done.
local function count(list)
  local all = #list
  for k = 1, #list do
    local n, once = list[k], M.rounds(list[k])
    if M.takes_long(n) and not once then all = all + 100 end
    build.lists(n, function(inner) all = all + count(inner) * (once or 1) end)
  end
  return all
end

-- M.is_short(n): is a loop by constants around others so short that it may be written out?
function M.is_short(n)
  local once = M.rounds(n)
  return once and once * count(n.body) <= 64
end

-- M.unrolls(n, typed): so many rounds of a loop without end are written behind each other, where they are short, so that
-- counting them costs little beside them.
function M.unrolls(n, typed)
  local size = not typed.barriers and count(n.body) or 100
  return size <= 8 and "#pragma unroll 8\n" or size <= 20 and "#pragma unroll 4\n" or ""
end
