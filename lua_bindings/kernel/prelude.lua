-- As much of the C++ before a kernel that was written in Lua (prelude.cxx) as the kernel names.

local M = ...
local text_of = use "kernel/texts"

-- A helper of op.def for int and tide_i, as tk_<name>.
local function helper(name)
  local text = sub(text_of.helpers_template, find(text_of.helpers_template, "T H(" .. name .. ")"))
  local line = find(text, "\n")
  text = "TIDE_FN " .. sub(text, 1, sub(text, line - 1, line - 1) == "{" and find(text, "\n}\n") + 2 or line)
  local function of(signed, unsigned) return "#define T " .. signed .. "\n#define U " .. unsigned .. "\n" .. text .. "#undef T\n#undef U\n" end
  return "@tk_" .. name .. "(\n#define H(name) tk_##name\n" .. of("int", "unsigned") .. of("tide_i", "tide_u") .. "#undef H\n"
end
local integer_helpers = helper "abs" .. helper "min" .. helper "max" .. helper "remainder" .. helper "div_floor"

-- Where the element of ndim indexes is, from 1: tk_at1, tk_at2 .. check them and give NULL where there is none; tk_load1 ..
-- read it; tk_apart_at1, tk_apart_load1 .. do so as functions that are called; tk_in1 .. are where it is, unchecked.
local function access(ndim)
  local params, passed, classes, out, offset = {}, {}, {}, {}, {}
  local index, size = "(tide_i)i" .. ndim, "(tide_i)n" .. ndim -- the first that lies outside
  for d = ndim, 1, -1 do
    classes[d] = "class A" .. d
    params[d] = "A" .. d .. " i" .. d .. ", tide_x n" .. d .. ", tide_x s" .. d
    passed[d] = "i" .. d .. ", n" .. d .. ", s" .. d
    out[d] = "tk_out(i" .. d .. ", n" .. d .. ")"
    offset[d] = "((tide_x)i" .. d .. " - 1) * s" .. d
    if d < ndim then index, size = out[d] .. " ? (tide_i)i" .. d .. " : " .. index, out[d] .. " ? (tide_i)n" .. d .. " : " .. size end
  end
  local of, list, place = "<class T, " .. join(classes, ", ") .. ">", join(params, ", "), "  return p + (" .. join(offset, " + ") .. ");\n}\n"
  local function tested(apart, how)
    return "@tk_" .. apart .. "at" .. ndim .. "(\ntemplate " .. of .. " " .. how .. " T *tk_" .. apart .. "at" .. ndim .. "(TIDE_S s, int site, T *p, " .. list
      .. ") {\n  if (TIDE_RARELY(" .. join(out, " | ") .. ")) { tk_report(s, site, " .. index .. ", " .. size .. ", TIDE_INDEX); TIDE_LEAVE return 0; }\n"
      .. place .. "@tk_" .. apart .. "load" .. ndim .. "<\ntemplate <class R, class T, " .. join(classes, ", ") .. "> " .. how .. " R tk_" .. apart .. "load"
      .. ndim .. "(TIDE_S s, int site, T *p, " .. list .. ") {\n  T *at = tk_" .. apart .. "at" .. ndim .. "(s, site, p, " .. join(passed, ", ")
      .. ");\n  return at ? tk_as<R, T>::get(*at) : R(0);\n}\n"
  end
  return "@tk_in" .. ndim .. "(\ntemplate " .. of .. " TIDE_FN T *tk_in" .. ndim .. "(TIDE_S, int, T *p, " .. list .. ") {\n" .. place
    .. tested("", "TIDE_FN") .. tested("apart_", "TIDE_COLD")
end

-- ---- as much of it as a kernel names ----

-- The definitions of a text, each with the words that its line of @ says, all of which have to be named.
local function split(text)
  local list, at = {}, find(text, "@")
  while at do
    local stop = find(text, "\n")
    local words, rest = {}, sub(text, 2, stop - 1)
    local mark = find(rest, "@")
    words[1] = mark and sub(rest, 1, mark - 1) or rest
    words[2] = mark and sub(rest, mark + 1)
    text = sub(text, stop + 1)
    at = find(text, "@")
    list[#list + 1] = { words = words, text = at and sub(text, 1, at - 1) or text }
    text = at and sub(text, at)
  end
  return list
end

local parts = {}

-- The definitions that `body`, or one of those behind them, names. They stand behind those that they name.
local function named(texts, body)
  local kept = ""
  for k = #texts, 1, -1 do
    local text = texts[k]
    local list = parts[text] or split(text)
    parts[text] = list
    if #list == 0 then kept = text .. kept end
    for n = #list, 1, -1 do
      local words, all = list[n].words, true
      for w = 1, #words do all = all and (find(body, words[w]) or find(kept, words[w])) end
      if all then kept = list[n].text .. kept end
    end
  end
  return kept
end

-- M.write(of, body): what `body` needs; of.host: for the CPU, behind its compiler's own texts; of.float, of.slots,
-- of.threads, of.bounds, of.small, of.few: whether a launch has so few blocks that it waits itself; of.ndims[n]: tensors of n dims are indexed; of.sums.tide_i, of.sums.tide_r: what is summed over a
-- block; of.random; of.stops: it looks whether to end; of.leaves: a thread ends where an index lies outside, so that what it
-- tests again behind that is known to lie inside.
function M.write(of, body)
  local side = of.host and "host" or "device"
  local head = {
    "#define TIDE_SLOTS " .. of.slots .. "\n#define TIDE_THREADS " .. of.threads .. "\n#define TIDE_BOUNDS " .. of.bounds .. "\ntypedef " .. (of.small and "int" or "long long")
      .. " tide_x;\n", of.float == "float64" and "typedef double tide_r;\n#define TIDE_M(name) name\n#define TIDE_R(name) name##_f64\n"
      or "typedef float tide_r;\n#define TIDE_M(name) name##f\n#define TIDE_R(name) name##_f32\n",
    "#define TIDE_FEW " .. of.few .. "\n#define TIDE_INDEX " .. of.index .. "\n#define TIDE_ZERO " .. of.zero .. "\n#define TIDE_STOPPED " .. of.stopped .. "\n#define TIDE_APART " .. of.apart .. "\n",
    "#define TIDE_LEAVE" .. (of.leaves and ' asm volatile("exit;"); __builtin_unreachable();' or "") .. "\n",
    text_of[side], text_of.integers,
  }
  local texts = { text_of[side .. "_words"], of.random and text_of.philox or "", text_of.kernel_numbers, integer_helpers, text_of.numbers, text_of.memory, text_of.atomics, text_of[side .. "_adds"] }
  if not of.host then texts[#texts + 1] = text_of.device_lanes end
  for n = 1, 8 do
    if of.ndims[n] then texts[#texts + 1] = access(n) end
  end
  if of.stops then texts[#texts + 1] = text_of[side .. "_stops"] .. text_of.stops end
  if of.meets then texts[#texts + 1] = text_of[side .. "_meets"] .. text_of.meets end
  if next(of.sums) then texts[#texts + 1] = text_of[side .. "_sums"] end
  for name in next, of.sums do texts[#texts + 1] = "TIDE_SUMS(" .. name .. ", tk_sum_" .. name .. ")\n" end
  return join(head) .. named(texts, body)
end
