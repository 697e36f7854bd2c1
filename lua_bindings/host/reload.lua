-- tide.reload: a module's text again, and what it holds stays.
--
-- The text runs with globals of its own. What it gives, the module and those globals, is then laid beside what there is, by
-- names: the keys of its tables and the variables of its functions. For each name the value that the text gave at the last
-- load decides, the base: where the text gives the same again, what the program has made of it stays, else the new value is
-- taken. Functions and kernels cannot be compared, and are new unless the program has put others in their places.
--
-- Tables that the text has made are merged into those that it made before, which so keep their identity. Variables of the
-- new functions become those of the old ones. References to what was not taken become references to what stayed. All this
-- is noted as changes, which reload.c makes at the end.
--
-- A note of a value is the value itself where it is a number, string or boolean, and otherwise a table: `is` says what,
-- `like` how two values of state compare, `fields` and `meta` what a table held; `refs` has, weakly, the value itself.

local M = ...
local is_made, likeness, source_of, variable_of, is_same = use("host/reload.c", "is_made", "likeness", "source_of", "variable_of", "is_same")
local pairs_of_place, length_of_place, global_table = use("host/reload.c", "pairs_of_place", "length_of_place", "global_table")
local compile_text, apart, run_recorded, apply_changes = use("host/reload.c", "compile_text", "apart", "run_recorded", "apply_changes")
local records = {} -- by name: {root, globals, variables, refs, source, path, module}
local unknown = {} -- the note where nobody has seen the last load

local SET, META, FORWARD, VALUE, JOIN, OLD = 1, 3, 4, 5, 6, 7

local is_plain = { number = true, string = true, boolean = true, ["nil"] = true }

local function below(base, key)
  if base == nil or base == unknown then return base end
  return base.fields and base.fields[key]
end

-- What kind of value it is, and what two of them are compared by.
local function kind_of(plan, value)
  local t = type(value)
  if is_plain[t] then return "plain", value end
  if t == "function" then return "code" end
  if t == "table" then
    if plan.libraries[value] or not is_made(plan.recorder, value) then return "reference" end
    return "table"
  end
  local like = t == "userdata" and likeness(value) or t ~= "userdata" and t
  if like == true then return "code" end
  if like then return "state", like end
  return "reference"
end

-- The note of a value that the text gave, one for each.
local function note(plan, value, is, like)
  if is == "plain" then return value end
  local n = plan.notes[value]
  if not n then
    n = { is = is, like = like, fields = is == "table" and {} or nil }
    plan.notes[value], plan.refs[n] = n, value
  end
  return n
end

local function change(plan, op, a, b, c, d)
  local list, at = plan.changes, plan.n * 5
  list[at + 1], list[at + 2], list[at + 3], list[at + 4], list[at + 5] = op, a, b, c, d
  plan.n = plan.n + 1
end

-- ---- functions and their variables ----

local choose

-- Notes the variables of an old function by their names; false: two variables have it.
local function survey(plan, f)
  if plan.surveyed[f] or source_of(f) ~= plan.old_source then return end
  plan.surveyed[f] = true
  for i = 1, 255 do
    local name, value = upvalue(f, i)
    if not name then break end
    local id, there = variable_of(f, i), plan.named[name]
    if there == nil then
      plan.named[name] = { f = f, i = i, id = id }
    elseif there and there.id ~= id then
      plan.named[name] = false
    end
    if type(value) == "function" then survey(plan, value) end
  end
end

-- The variable of new functions becomes upvalue i of the old function f.
local function match(plan, variable, f, i, id)
  local known = plan.record and plan.record.variables[id]
  local base = unknown
  if known and known.name == variable.name then base = known.base end
  local _, old = upvalue(f, i)
  variable.old = { f = f, i = i, id = id, value = old }
  plan.joined[id] = true
  variable.result, variable.note = choose(plan, base, old, variable.value)
end

-- A function that the text has made, and the one that was there, or nil.
local function take_function(plan, f, old)
  if source_of(f) ~= plan.source then return end
  if old and source_of(old) ~= plan.old_source then old = nil end
  if old then survey(plan, old) end
  if plan.taken[f] then return end
  plan.taken[f] = true
  for i = 1, 255 do
    local name, value = upvalue(f, i)
    if not name then break end
    local id = variable_of(f, i)
    local variable = plan.variables[id]
    if not variable then
      variable = { name = name, id = id, value = value, holders = {} }
      plan.variables[id] = variable
      plan.order[#plan.order + 1] = variable
    end
    variable.holders[#variable.holders + 1] = { f = f, i = i }
    for k = 1, old and not variable.old and 255 or 0 do
      local its = upvalue(old, k)
      if not its then break end
      if its == name then match(plan, variable, old, k, variable_of(old, k)) break end
    end
  end
end

-- ---- values ----

-- Does the text give what it gave before?
local function is_as_before(plan, base, is, like, new)
  if is == "plain" then
    return type(base) == type(new) and (is_same(base, new) or new ~= new and base ~= base)
      and (type(new) ~= "number" or is_integer(new) == is_integer(base))
  end
  if type(base) ~= "table" or base.is ~= is then return false end
  return is == "code" or is == "table" or is == "state" and base.like == like
    or is == "reference" and is_same(plan.record.refs[base], new)
end

-- Was the old value put there by the last load, as far as one can tell? One that the collector has freed was taken out.
local function is_untouched(plan, base, is, old, new)
  if base ~= unknown then
    local was = plan.record.refs[base]
    return was ~= nil and is_same(was, old)
  end
  if is == "table" then return type(old) == "table" and not plan.libraries[old] end
  return type(old) == type(new)
end

local function take(plan, new, is, old)
  if is == "code" and type(new) == "function" then take_function(plan, new, type(old) == "function" and old or nil) end
  if is == "table" and not plan.queued[new] then
    plan.queued[new] = true
    plan.fills[#plan.fills + 1] = new
  end
  return new
end

-- Of what a name has and what the text gives: what it is to have, and the note of the latter.
function choose(plan, base, old, new)
  local is, like = kind_of(plan, new)
  local n = note(plan, new, is, like)
  if is_same(old, new) then return old, n end
  local stays
  if base == unknown then
    stays = is == "plain" and (new == nil or old ~= nil) or is ~= "reference" and type(old) == type(new)
  else
    stays = is_as_before(plan, base, is, like, new)
  end
  if not stays then return take(plan, new, is, nil), n end
  if (is == "code" or is == "table") and is_untouched(plan, base, is, old, new) then
    if is == "code" then return take(plan, new, is, old), n end
    if not plan.kept[new] and not plan.filled[new] then
      plan.kept[new] = old
      plan.merges[#plan.merges + 1] = { base = base, old = old, new = new }
    end
    return plan.kept[new] or new, n
  end
  if is ~= "plain" and is ~= "reference" and old ~= nil and plan.kept[new] == nil then plan.kept[new] = old end
  return old, n
end

-- A table's key is to have this, or what stays in its place.
local function write(plan, t, key, value, now)
  plan.writes[#plan.writes + 1] = { t = t, key = key, value = value, now = now }
end

local function merge(plan, m)
  local n, old, new, base = plan.notes[m.new], m.old, m.new, m.base
  plan.refs[n] = old
  for key, value in next, new do
    local now = rawget(old, key)
    local result, its = choose(plan, below(base, key), now, value)
    n.fields[key] = its
    write(plan, old, key, result, now)
  end
  if base and base ~= unknown then
    for key in next, base.fields do
      local now = rawget(old, key)
      if rawget(new, key) == nil and now ~= nil then
        if type(now) == "function" then survey(plan, now) end
        change(plan, SET, old, key, nil)
      end
    end
  end
  if not m.is_globals then
    local now, meta = getmeta(old), getmeta(new)
    local before = base == unknown and unknown or base and base.meta
    if meta or base and base ~= unknown and base.meta then
      local result
      result, n.meta = choose(plan, before, now, meta)
      plan.metas[#plan.metas + 1] = { t = old, meta = result, now = now }
    end
  end
  plan.forwards[#plan.forwards + 1] = { t = new,
    meta = { __index = old, __newindex = old, __len = length_of_place, __pairs = pairs_of_place, __metatable = "tide.reload" } }
end

-- A table of the text's that was not there before: its values are seen, and references in it set right.
local function fill(plan, t)
  if plan.kept[t] then return end
  local n = plan.notes[t]
  plan.filled[t] = true
  for key, value in next, t do
    local _, its = choose(plan, nil, nil, value)
    n.fields[key] = its
    write(plan, t, key, value, value)
  end
  local meta = getmeta(t)
  if meta then
    local _, its = choose(plan, nil, nil, meta)
    n.meta = its
    plan.metas[#plan.metas + 1] = { t = t, meta = meta, now = meta }
  end
end

-- Everything that the text gives, old places first: what they give away is found by name afterwards.
local function walk(plan)
  local merges, fills = 1, 1
  repeat
    local goes_on = false
    while merges <= #plan.merges do
      merge(plan, plan.merges[merges])
      merges = merges + 1
    end
    for i = 1, #plan.order do
      local variable = plan.order[i]
      local there = not variable.old and plan.named[variable.name]
      if there and not plan.joined[there.id] then
        match(plan, variable, there.f, there.i, there.id)
        goes_on = true
      end
    end
    if not goes_on and fills <= #plan.fills then
      fill(plan, plan.fills[fills])
      fills, goes_on = fills + 1, true
    end
    for i = 1, goes_on and 0 or #plan.order do
      local variable = plan.order[i]
      if not variable.old and not variable.seen then
        variable.seen, goes_on = true, true
        variable.result, variable.note = choose(plan, nil, nil, variable.value)
      end
    end
  until not goes_on and merges > #plan.merges and fills > #plan.fills
end

-- ---- the changes ----

local function translate(plan, value)
  local stayed = value ~= nil and plan.kept[value]
  if stayed == nil or stayed == false then return value end
  return stayed
end

local function list_changes(plan, record)
  for i = 1, #plan.writes do
    local w = plan.writes[i]
    local value = translate(plan, w.value)
    if not is_same(value, w.now) then change(plan, SET, w.t, w.key, value) end
  end
  for i = 1, #plan.metas do
    local m = plan.metas[i]
    local meta = translate(plan, m.meta)
    if not is_same(meta, m.now) then change(plan, META, m.t, meta) end
  end
  for i = 1, #plan.order do
    local variable = plan.order[i]
    local old, first = variable.old, variable.holders[1]
    local value, id = translate(plan, variable.result), variable.id
    if not is_same(value, variable.value) then change(plan, VALUE, first.f, first.i, value) end
    -- A function's new text has a variable of its own: old functions go on calling the old one.
    if old and not (type(value) == "function" and is_same(value, variable.value)) then
      id = old.id
      if not is_same(value, old.value) then change(plan, VALUE, old.f, old.i, value) end
      for k = 1, #variable.holders do
        change(plan, JOIN, variable.holders[k].f, variable.holders[k].i, old.f, old.i)
      end
    end
    record.variables[id] = { name = variable.name, base = variable.note }
  end
  for i = 1, #plan.forwards do change(plan, FORWARD, plan.forwards[i].t, plan.forwards[i].meta) end
  for f in next, plan.surveyed do change(plan, OLD, f) end
end

-- ---- the text ----

-- The file that require would load; or nil and what was tried.
local function find_file(loaded, name)
  local package = rawget(loaded, "package")
  if type(package) ~= "table" then return nil, "there is no package.path" end
  local search, path = rawget(package, "searchpath"), rawget(package, "path")
  if type(search) ~= "function" or type(path) ~= "string" then return nil, "there is no package.path" end
  local file, tried = search(name, path)
  if type(file) == "string" then return file end
  return nil, type(tried) == "string" and tried or "package.searchpath gave " .. type(file) .. " for a path"
end

-- The name of the module, and its value if it is there.
local function find_module(loaded, module)
  if type(module) == "string" then return module, rawget(loaded, module) end
  for name in next, type(module) == "table" and records or {} do
    if is_same(rawget(loaded, name), module) then return name, module end
  end
  for name, value in next, type(module) == "table" and loaded or {} do
    if type(name) == "string" and is_same(value, module) then return name, module end
  end
  refuse(module, "module", "a module's name, or the table of one that is loaded")
end

-- The record of the last load, unless others have put another value in the module's place since.
local function known_record(name, value)
  local record = records[name]
  local root = record and record.root
  if type(root) == "table" then root = record.refs[root] end
  return root ~= nil and is_same(root, value) and record or nil
end

-- The tables that belong to others: of each loaded module but this one.
local function libraries_of(loaded, name, env)
  local out = { [env] = true, [loaded] = true }
  for key, value in next, loaded do
    if type(value) == "table" and not is_same(value, rawget(loaded, name)) then out[value] = true end
  end
  return out
end

local function plan_of(name, record, old_source, source, recorder, loaded, env)
  return { record = record, old_source = old_source, source = source, recorder = recorder, refs = setmeta({}, { __mode = "v" }),
    libraries = libraries_of(loaded, name, env), notes = {}, kept = {}, queued = {}, filled = {}, merges = {}, fills = {}, writes = {},
    metas = {}, forwards = {}, changes = {}, n = 0, variables = {}, order = {}, taken = {}, surveyed = {}, named = {}, joined = {} }
end

function M.reload(module, text)
  local loaded, env = loaded(), global_table()
  local name, old = find_module(loaded, module)
  if text ~= nil and type(text) ~= "string" then refuse(text, "text", "a string, or nil for the module's file") end
  local record = known_record(name, old)
  local path, problem = name, nil
  if text == nil then
    path = record and record.path
    if not path then path, problem = find_file(loaded, name) end
    if not path then return nil, "reload: module '" .. name .. "' not found: " .. problem end
  end
  local own = setmeta({}, { __index = env })
  local fn
  fn, problem = compile_text(text, text and "@" .. name or path, own)
  if not fn then return nil, problem end
  local source = source_of(fn)
  own.require = apart(rawget(env, "require"))
  local without = own.require
  local ok, given, recorder = run_recorded(fn, name, path, old)
  if not ok then return nil, given end
  if is_same(rawget(own, "require"), without) then own.require = nil end

  local plan = plan_of(name, record, record and record.source or source, source, recorder, loaded, env)
  if given == nil then given = true end
  local base
  if old ~= nil and not record then base = unknown end
  local global_notes = { is = "table", fields = {} }
  plan.notes[own], plan.kept[own] = global_notes, env
  plan.merges[1] = { base = record and record.globals or base, old = env, new = own, is_globals = true }
  local result, root = choose(plan, record and record.root or base, old, given)
  walk(plan)
  result = translate(plan, result)
  local now = { root = root, globals = global_notes, variables = {}, refs = plan.refs, source = source,
    path = not text and path or record and record.path }
  list_changes(plan, now)
  if not is_same(result, old) then change(plan, SET, loaded, name, result) end
  change(plan, SET, records, name, now)
  apply_changes(plan.changes, plan.n)
  return result
end
