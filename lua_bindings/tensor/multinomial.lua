-- tide.multinomial: places drawn by their weights. `pick` (random.c) draws from running sums; without replacement every
-- place gets an exponential number of the rate that is its weight, and the smallest ones are those that come first.

local M = ...
local pick = use("tensor/random.c", "pick")
local inf = 1e999

local function bad(what, got, expected)
  fail("ValueError", called() .. ": " .. what .. ", got " .. got .. ", expected " .. expected)
end

-- `totals` are the sums of the lines. A least weight that is NaN is not from 0. Waits.
local function check_weights(w, totals)
  local least, greatest = totals:aminmax()
  if not (w:amin():ge(0) & least:gt(0) & greatest:lt(inf)):item() then
    bad("wrong weights", "a line that holds a negative or infinite one, NaN or zeros alone", "weights from 0 with a finite sum above 0")
  end
end

-- The n smallest in their order. Weights are taken as parts of the greatest one, so that no number leaves its range; where
-- one is 0 stands NaN, which is behind them all.
local function race(w, n, generator)
  local keys = w:new_empty(w:size()):exponential_(1, { generator = generator })
  keys = keys:div_(w / w:amax(2, { keepdim = true })):masked_fill_(w:eq(0), 0 / 0)
  local _, places = keys:topk(n, 2, { largest = false })
  return places
end

function M.multinomial(p, n, replacement, generator)
  local dims = p:dim()
  if dims ~= 1 and dims ~= 2 then fail("ShapeError", called() .. ": wrong shape of p, got " .. dims .. " dimensions, expected one or two") end
  local dtype = text(p.dtype)
  if not find(dtype, "float") then fail("DtypeError", called() .. ": wrong dtype of p, got " .. dtype .. ", expected a floating dtype") end
  local w = dims == 1 and p:unsqueeze(1) or p
  local m = w:size(2)
  if m == 0 then fail("ShapeError", called() .. ": wrong shape of p, got a line of none, expected weights") end
  if n < 1 then bad("wrong n", n, "at least 1") end
  local places
  if w:size(1) == 0 then
    places = w:new_empty({ 0, n }, { dtype = "int64" })
  else
    local wide = { dtype = "float64" }
    if replacement or n == 1 then
      local sums = w:cumsum(2, wide)
      check_weights(w, sums:select(2, m))
      places = pick(sums, n, generator)
    else
      check_weights(w, w:sum(2, wide))
      local least = w:gt(0):sum(2):min():item() -- weights above 0, in the line that has fewest
      if n > least then bad("too many places without replacement", n, "at most " .. least .. ", the weights above 0") end
      places = race(w:double(), n, generator)
    end
  end
  if index_base() == 0 then places = places - 1 end
  return dims == 1 and places:select(1, 1) or places
end
