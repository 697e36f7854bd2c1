-- The pages of the reference, in Markdown: one for each group, with an entry for each name. The forms of a name (function,
-- method, in place) share an entry. Returns the texts by file name, and the numbers of entries and of names.

local function escape(text) return (text:gsub("[\\`*_%[%]<>#{}|~]", "\\%0")) end

-- The sentences of a text: the first one says what the entry does, the others are its details.
local function sentences(text)
  local out = {}
  for line in text:gmatch "[^\n]+" do
    local rest = line
    while rest do
      local stop, next = rest:match "^.-[.!?]()%s+()[%u%[]"
      out[#out + 1] = stop and rest:sub(1, stop - 1) or rest
      rest = stop and rest:sub(next)
    end
  end
  return out
end

local function params_of(row)
  local out = {}
  for i, p in ipairs(row.params or {}) do
    local receiver = i == 1 and row.signature:find("^" .. p.name .. ":")
    if not receiver and p.type ~= "any" then
      local kind = p.choices and "`'" .. table.concat(p.choices, "'`, `'") .. "'`" or escape((p.type:gsub("|", " or ")))
      local rest = p.option and "option" or p.optional and "optional" or "required"
      if p.default then rest = rest .. ", default `" .. p.default .. "`" end
      out[#out + 1] = ("| `%s` | %s | %s |"):format(p.name, kind, rest)
    end
  end
  return #out > 0 and "| parameter | accepts | |\n| --- | --- | --- |\n" .. table.concat(out, "\n") .. "\n" or nil
end

-- The name that a heading shows: `sum` for tide.sum and x:sum, `cuda.graph`, `Stream:query`.
local function heading_of(row, plain)
  local path, name = row.path, row.name
  if path == "Tensor" or path == "tide" then
    local base = name:match "^(.*[^_])_$"
    return base and plain[base] and base or name
  end
  if path:find "^tide%." then return path:sub(6) .. "." .. name end
  return path .. ":" .. name
end

return function(rows, groups)
  local plain, group_of, pages, names = {}, {}, {}, 0
  for _, row in ipairs(rows) do
    if row.path == "Tensor" or row.path == "tide" then plain[row.name] = true end
  end
  for _, group in ipairs(groups) do
    for _, noun in ipairs(group.nouns) do group_of[noun] = group end
    group.entries, group.order = {}, {}
  end
  local at, seen = {}, {} -- the entry of each heading: a name has one, on the page where it stands first
  for _, row in ipairs(rows) do
    if row.name:sub(1, 1) ~= "_" then
      local noun = row.noun or row.path:find "^tide%.errors" and "error" or row.path
      local group = assert(group_of[noun], "scripts/docs/groups.lua has no page for the noun " .. noun .. " of " .. row.path .. "." .. row.name)
      local heading = heading_of(row, plain)
      local entry = at[heading]
      if not entry then
        entry = { rows = {}, heading = heading }
        at[heading] = entry
        table.insert(group.order, entry)
      end
      local key = row.path .. "." .. row.name
      if not seen[key] then
        seen[key] = true
        names = names + 1
      end
      table.insert(entry.rows, row)
    end
  end
  local entries, index = 0, { "# Reference\n\nEvery public name, grouped by what you want to do. At the prompt `help 'name'` shows the same entry.\n",
    "| page | what is on it | names |\n| --- | --- | --- |" }
  local toc = {}
  for _, group in ipairs(groups) do
    table.sort(group.order, function(a, b) return a.heading < b.heading end)
    local out = { ("# %s\n\n%s Learn more: [%s](../%s).\n"):format(group.title, group.text, group.learn:match "([%w_]+)%.md$":gsub("_", " "), group.learn) }
    for _, entry in ipairs(group.order) do
      entries = entries + 1
      out[#out + 1] = ("## `%s`\n"):format(entry.heading)
      local signatures, texts, shown = {}, {}, {}
      for _, row in ipairs(entry.rows) do
        if not shown[row.signature] then signatures[#signatures + 1] = row.signature end
        shown[row.signature] = true
        if not shown[row.text] then texts[#texts + 1] = row.text end
        shown[row.text] = true
      end
      out[#out + 1] = "```text\n" .. table.concat(signatures, "\n") .. "\n```\n"
      for _, text in ipairs(texts) do
        local list = sentences(text)
        out[#out + 1] = escape(list[1] or "") .. "\n"
        for i = 2, #list do out[#out + 1] = "- " .. escape(list[i]) .. (i == #list and "\n" or "") end
      end
      local example = entry.rows[1].example
      if example then out[#out + 1] = "```lua\n" .. example .. "\n```\n" end
      local params = params_of(entry.rows[1])
      if params then out[#out + 1] = params end
    end
    pages[group.file] = table.concat(out, "\n")
    index[#index + 1] = ("| [%s](%s.md) | %s | %d |"):format(group.title, group.file, group.text, #group.order)
    toc[#toc + 1] = group.file
  end
  index[#index + 1] = "\nAlso here: [environment variables](environment.md), [exit codes](exit_codes.md).\n"
  index[#index + 1] = "```{toctree}\n:hidden:\n\n" .. table.concat(toc, "\n") .. "\nenvironment\nexit_codes\n```"
  pages.index = table.concat(index, "\n") .. "\n"
  return pages, entries, names
end
