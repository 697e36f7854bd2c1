-- What lanes of a block have in common, for the code of the block interpreter (code.lua).
--
-- An expression is uniform where its value is the same for every lane that computes it. A variable is uniform where all
-- that is put into it is, by as many lanes as it was declared by: a `region` is a stretch of statements that the same
-- lanes go through, but for those that have left it for good. A branch on what differs between lanes begins a region, so
-- does the body of a loop or block that some lanes leave before others. What varies makes more vary, so this is
-- repeated until nothing changes.
--
-- A variable belongs to the list of statements that first puts something into it, where whatever else uses it comes later
-- in that list or inside: what it holds for lanes that are elsewhere does not matter then. Any other one is `loose`: it
-- begins as 0 and varies.
--
-- Invariant: vary only grows, and what is not in it is uniform in every run of the program.

local M = ...
local build = use "kernel/build"
local typed, mode, flow, open, at, changed, region_of

-- ---- where variables belong ----

local function refer(n)
  local home = flow.home[n]
  if home and open[home] then
    flow.last[n] = at[home]
  else
    flow.loose[n] = true
  end
end

local function use_all(e)
  if e.op == "var" then refer(e.n) end
  build.children(e, use_all)
end

local function set(n, list, node)
  flow.sets[n] = (flow.sets[n] or 0) + 1
  if flow.home[n] or flow.loose[n] then return refer(n) end
  flow.home[n], flow.declares[node], flow.last[n] = list, true, at[list]
end

local scopes

local function scope(n, list)
  build.expressions(n, use_all)
  if n.op == "for" then
    open[n.body], at[n.body] = true, 0
    set(n.var, n.body, n)
  elseif n.var then
    set(n.var, list, n)
  end
  build.lists(n, scopes)
end

scopes = function(list)
  open[list] = true
  for k = 1, #list do
    at[list] = k
    scope(list[k], list)
  end
  open[list] = nil
end

-- ---- what varies ----

local function differs(e)
  if e.op == "var" then return flow.vary[e.n] end
  return e.op == "thread" or e.op == "place" and (mode ~= "rows" or e.dim == typed.ndim)
end

local function varies(e) return build.has(e, differs) end

local function vary(n)
  if not flow.vary[n] then flow.vary[n], changed = true, true end
end

local function part(id)
  if not flow.parts[id] then flow.parts[id], changed = true, true end
end

local walk

local function assign(n, node, region, varying)
  if flow.declares[node] then region_of[n] = region end
  if varying or flow.loose[n] or region_of[n] ~= region then vary(n) end
end

local statements = {
  let = function(n, region) assign(n.var, n, region, varies(n.value)) end,
  ["if"] = function(n, region)
    local apart = varies(n.cond)
    walk(n.yes, apart and {} or region)
    walk(n.no, apart and {} or region)
  end,
  block = function(n, region)
    flow.entry[n.id] = flow.parts[n.id] and {} or region
    if n.op == "block" and n == typed.body[#typed.body] then flow.whole[flow.entry[n.id]] = true end
    walk(n.body, flow.entry[n.id])
  end,
  ["for"] = function(n, region)
    local counted = varies(n.from) or varies(n.step)
    if counted or varies(n.to) then part(n.id) end
    region = flow.parts[n.id] and {} or region
    flow.entry[n.id] = region
    assign(n.var, n, region, counted)
    walk(n.body, region)
  end,
  leave = function(n, region)
    if flow.entry[n.id] ~= region then part(n.id) end
  end,
  atomic = function(n)
    if n.var then vary(n.var) end
  end,
  barrier = function(n, region)
    if not flow.whole[region] then flow.apart[n] = true end
  end,
  warp_sum = function(n) vary(n.var) end,
}
statements.loop, statements.next = statements.block, statements.leave
function statements.block_sum(n, region)
  statements.barrier(n, region)
  vary(n.var)
end

walk = function(list, region)
  for k = 1, #list do
    local n = list[k]
    local of = statements[n.op]
    if of then of(n, region) end
  end
end

-- M.begin(typed, mode): {varies = function(expression), vary, loose: of variables; home, last: the list that a
-- variable belongs to and the last place in it that uses it; declares: statements that do; sets: how many set it; parts:
-- blocks and loops that lanes leave one by one; apart: barriers and sums of a block that not all of its threads that are
-- left may come to}. mode: "rows", "flat", "threads", as in code.lua.
function M.begin(of, way)
  typed, mode = of, way
  flow = { vary = {}, loose = {}, home = {}, last = {}, declares = {}, sets = {}, parts = {}, entry = {}, apart = {}, varies = varies }
  open, at = {}, {}
  scopes(typed.body)
  for n in next, flow.loose do flow.vary[n] = true end
  repeat
    changed, region_of, flow.entry = false, {}, {}
    local all = {}
    flow.whole = { [all] = true }
    walk(typed.body, all)
  until not changed
  return flow
end

-- Lets go of the tree.
function M.finish()
  typed, flow, open, at, region_of = nil, nil, nil, nil, nil
end
