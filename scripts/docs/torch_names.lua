-- The page of the names of torch (torch_names.txt: those of its documentation, version 2.8) with what they are here or what
-- there is instead. Fails for a name without an answer: instead.def needs a row for it then.
-- Returns its Markdown.
local tide = require "tide"

-- A section of the file: its title, where tide has such names, and the row of instead.def for its other names.
local sections = {
  torch = { "torch", "tide" }, Tensor = { "torch.Tensor", "Tensor" }, functional = { "torch.nn.functional", "tide" },
  nn = { "torch.nn", "tide.nn", "nn" }, optim = { "torch.optim", "tide.optim", "optim" }, linalg = { "torch.linalg", "tide.linalg" },
  fft = { "torch.fft", "tide.fft" }, special = { "torch.special", "tide.special" }, cuda = { "torch.cuda", "tide.cuda" },
  distributed = { "torch.distributed", "tide.distributed" },
}

return function(root, hints, places)
  local tensor = tide.zeros(1)
  local paths = {} -- of the names of modules, the shortest first
  for place in pairs(places) do paths[#paths + 1] = place end
  table.sort(paths, function(a, b) return #a < #b or #a == #b and a < b end)
  local elsewhere = {}
  for _, path in ipairs(paths) do
    local name = path:match "[%w_]+$"
    if path:find "^tide%." or path:find "^Tensor%." then elsewhere[name] = elsewhere[name] or path end
  end

  local function link(path, text)
    local target = places[path] or places[(path:gsub("_$", ""))]
    return target and ("[`%s`](%s)"):format(text, target) or "`" .. text .. "`"
  end
  local function spelled(path) return (path:gsub("^Tensor%.", "x:")) end

  local out = { "# Names of PyTorch\n\nEvery name that PyTorch 2.8 documents for tensors, with what it is here.\n" ..
    "`help \"name\"` answers for each of them. [From PyTorch](../from/torch.md) tells what differs in use.\n" }
  local section, same, moved, missing, order
  local function flush()
    if not section then return end
    out[#out + 1] = "## " .. section[1] .. "\n"
    if #same > 0 then out[#out + 1] = "The same here: " .. table.concat(same, ", ") .. ".\n" end
    if #moved > 0 or #order > 0 then out[#out + 1] = "| name | here |\n| --- | --- |" end
    for _, row in ipairs(moved) do out[#out + 1] = row end
    for _, hint in ipairs(order) do out[#out + 1] = ("| %s | %s |"):format(table.concat(missing[hint], ", "), hint) end
    out[#out + 1] = ""
  end
  for line in io.lines(root .. "scripts/docs/torch_names.txt") do
    local title = line:match "^# (%w+)$"
    if title then
      flush()
      section, same, moved, missing, order = sections[title], {}, {}, {}, {}
    end
    for name in (title and "" or line):gmatch "%S+" do
      local path, base = section[2] .. "." .. name, name:match "^(.-)_?$"
      local is_here = pcall(function()
        local at = section[2] == "Tensor" and tensor or tide
        for key in (section[2] == "Tensor" and name or path:sub(#"tide." + 1)):gmatch "[^.]+" do at = at[key] end
      end)
      local other = elsewhere[name] or elsewhere[base]
      local hint = not is_here and (hints[name] or hints[base])
      if is_here then
        same[#same + 1] = link(path, name)
      elseif other and not hint then
        moved[#moved + 1] = ("| `%s` | %s |"):format(name, link(other, spelled(other)))
      else
        hint = hint or hints[section[3]] or error("torch's " .. section[1] .. "." .. name .. " has no row in lua_bindings/call/api/instead.def")
        if not missing[hint] then missing[hint], order[#order + 1] = {}, hint end
        table.insert(missing[hint], "`" .. name .. "`")
      end
    end
  end
  flush()
  return table.concat(out, "\n")
end
