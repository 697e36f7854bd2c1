-- The pages of the reference, in Markdown: one for each group, with an entry for each name. The forms of a name (function,
-- method, in place) share an entry. An entry has an example, whose output docs/code
-- compares, and links to sections of the manual whose code uses the name.
-- Returns the texts by file name, the numbers of entries, of names and of entries with an example, and where the entry of each
-- name is: {["tide.exp"] = "elementwise.md#exp"}.

local function escape(text) return (text:gsub("[\\`*_%[%]<>#{}|~]", "\\%0")) end

-- The sentences of a text: the first one says what the entry does, the others are its details. An option's name with a
-- colon begins one, too.
local function sentences(text)
  local out = {}
  text = text:gsub("\n", " "):gsub("([.!?])%s+([%u%[])", "%1\1%2"):gsub("([.!?])%s+(%l[%w_]*:%s)", "%1\1%2")
  for sentence in text:gmatch "[^\1]+" do out[#out + 1] = sentence end
  return out
end

-- More signatures, each on a line at the head of a text, and the text behind them.
local function split_signatures(text, signatures)
  while true do
    local line, rest = text:match "^(local [^\n]*<close>[^\n]*)\n(.+)$"
    if not line then line, rest = text:match "^([%w_.]+[:.(][^\n]* %-> [^\n]*)\n(.+)$" end
    if not line then return text end
    signatures[#signatures + 1], text = line, rest
  end
end

-- The types of a parameter: names of classes are links to their entries.
local function linked_types(types, link)
  local out = {}
  for kind in types:gmatch "[^|]+" do out[#out + 1] = link(kind:match "^[%w_.]+$", kind) or escape(kind) end
  return table.concat(out, " or ")
end

local function params_of(row, link)
  local out = {}
  for i, p in ipairs(row.params or {}) do
    local receiver = i == 1 and row.signature:find("^" .. p.name .. ":")
    if not receiver and p.type ~= "any" then
      local kind = p.choices and "`'" .. table.concat(p.choices, "'`, `'") .. "'`" or linked_types(p.type, link)
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

-- ---- where the manual uses a name ----

local most_uses = 3

local function slug(title) return title:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-") end

-- Calls visit(name, section) for the names in the Lua blocks of a page: `sum` of tide.sum and x:sum, and `cuda.graph`.
local function visit_page(manual, path, visit)
  local title, section, inside
  for line in io.lines(manual .. path) do
    local heading = line:match "^#+ (.*)$"
    if line:find "^```" then
      inside = not inside and line:find "^```lua" ~= nil
    elseif inside then
      for name in line:gmatch "tide%.([%w_.]+)" do visit(name, section) end
      for name in line:gmatch "[%w_%])}]:([%a_][%w_]*)%f[^%w_]" do visit(name, section) end
    elseif heading then
      title = title or heading
      section = { path = path, title = title == heading and title or title .. ": " .. heading, anchor = title ~= heading and "#" .. slug(heading) or "" }
    end
  end
end

-- The sections of a name, lessons before recipes: {[name] = {section, ...}}.
local function uses_of(manual)
  local uses = {}
  for _, room in ipairs { "start", "learn", "howto", "embed", "why" } do
    for path in io.popen(("cd '%s' && ls %s/*.md"):format(manual, room)):lines() do
      visit_page(manual, path, function(name, section)
        local list = uses[name] or {}
        uses[name] = list
        if list[#list] ~= section and #list < most_uses then list[#list + 1] = section end
      end)
    end
  end
  return uses
end

local function links_of(uses, name)
  local out = {}
  for i, section in ipairs(uses[name] or {}) do
    out[i] = ("[%s](../%s%s)"):format(section.title:gsub("`", ""), section.path, section.anchor)
  end
  return #out > 0 and "Used in " .. table.concat(out, "; ") .. ".\n" or nil
end

-- ---- related entries ----

local most_related = 6

local function name_in(heading) return heading:match "[^.:]+$" end

-- The headings that a text mentions as code: tide.sum, x:sum, sum(...), load_csv.
local function mentioned(text, at)
  local out = {}
  for before, name, behind in (" " .. text .. " "):gmatch "([^%a_]?[^%a_])([%a_][%w_.]*)%f[^%w_.]([^%w_.]?)" do
    local plain = name:gsub("^tide%.", ""):gsub("%.$", "")
    local is_code = plain ~= name:gsub("%.$", "") or before:sub(-1) == ":" and before:find "^[%w)]" or behind == "(" or plain:find "_"
    if is_code and at[plain] then out[plain] = true end
  end
  return out
end

-- Names of one family: max, argmax and cummax; load_csv and save_csv; Stream:wait_event and Event:wait.
local function is_family(a, b)
  a, b = name_in(a), name_in(b)
  local more_a, more_b = a:match "^%a+_(.+)$", b:match "^%a+_(.+)$"
  if more_a and more_a == more_b then return true end
  local short, long = #a < #b and a or b, #a < #b and b or a
  return #short > 2 and long:find(short, 1, true) ~= nil and #long - #short <= 3
end

-- Adds to each entry the headings of related ones: entries that it mentions, that mention it, and its family on the page;
-- where there are none, its neighbors in the table of functions.
local function relate(group, at)
  for k, entry in ipairs(group.order) do
    local rank = {}
    for _, row in ipairs(entry.rows) do
      for heading in pairs(mentioned(row.text, at)) do rank[heading] = 1 end
    end
    for _, other in ipairs(group.order) do
      if is_family(entry.heading, other.heading) then rank[other.heading] = rank[other.heading] or 3 end
      for _, row in ipairs(other.rows) do
        if mentioned(row.text, at)[entry.heading] then rank[other.heading] = rank[other.heading] or 2 end
      end
    end
    rank[entry.heading] = nil
    for _, i in ipairs(next(rank) and {} or { k - 1, k + 1 }) do
      local other = group.order[i]
      if other and other.rows[1].noun == entry.rows[1].noun and other.rows[1].path == entry.rows[1].path then rank[other.heading] = 4 end
    end
    entry.related = {}
    for heading in pairs(rank) do table.insert(entry.related, heading) end
    table.sort(entry.related, function(a, b)
      if rank[a] ~= rank[b] then return rank[a] < rank[b] end
      return #a < #b or #a == #b and a < b
    end)
    for i = #entry.related, most_related + 1, -1 do entry.related[i] = nil end
  end
end

-- The examples of a folder of pages: {[heading] = the block of code and the block of its output}.
local function read_examples(folder)
  local examples = {}
  for path in io.popen("ls '" .. folder .. "'*.md"):lines() do
    local lines
    for line in io.lines(path) do
      local heading = line:match "^## `([^`]+)`$"
      if heading then
        assert(not examples[heading], path .. ": a second example of " .. heading)
        lines = {}
        examples[heading] = lines
      elseif lines then
        lines[#lines + 1] = line
      end
    end
  end
  for heading, lines in pairs(examples) do examples[heading] = table.concat(lines, "\n"):match "^%s*(.-)%s*$" .. "\n" end
  return examples
end

return function(rows, groups, manual, examples)
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
  for _, entry in pairs(at) do entry.page = assert(group_of[entry.rows[1].noun or entry.rows[1].path:find "^tide%.errors" and "error" or entry.rows[1].path]).file end
  local function link(heading, text)
    local entry = heading and at[heading:gsub("^tide%.", "")]
    return entry and ("[`%s`](%s.md#%s)"):format(text, entry.page, slug(entry.heading))
  end
  local uses, shown_examples, places = uses_of(manual), 0, {}
  examples = read_examples(examples)
  local entries, index = 0, { "# Reference\n\nEvery public name, grouped by what you want to do. At the prompt `help 'name'` shows the same entry.\n",
    "| page | what is on it | names |\n| --- | --- | --- |" }
  local toc = {}
  for _, group in ipairs(groups) do
    relate(group, at)
    table.sort(group.order, function(a, b) -- functions, then the methods of classes
      local method, other = a.heading:find ":" ~= nil, b.heading:find ":" ~= nil
      if method ~= other then return other end
      return a.heading < b.heading
    end)
    local out = { ("# %s\n\n%s Learn more: [%s](../%s).\n"):format(group.title, group.text, group.learn:match "([%w_]+)%.md$":gsub("_", " "), group.learn) }
    for _, entry in ipairs(group.order) do
      entries = entries + 1
      out[#out + 1] = ("## `%s`\n"):format(entry.heading)
      local signatures, texts, shown = {}, {}, {}
      for _, row in ipairs(entry.rows) do
        places[row.path .. "." .. row.name] = group.file .. ".md#" .. slug(entry.heading)
        if not shown[row.signature] then signatures[#signatures + 1] = row.signature end
        shown[row.signature] = true
        if not shown[row.text] then texts[#texts + 1] = split_signatures(row.text, signatures) end
        shown[row.text] = true
      end
      out[#out + 1] = "```text\n" .. table.concat(signatures, "\n") .. "\n```\n"
      local details = {}
      for _, text in ipairs(texts) do
        for _, sentence in ipairs(sentences(text)) do details[#details + 1] = sentence end
      end
      out[#out + 1] = escape(table.remove(details, 1) or "") .. "\n"
      if examples[entry.heading] then
        out[#out + 1] = examples[entry.heading]
        shown_examples = shown_examples + 1
      end
      for i, sentence in ipairs(details) do out[#out + 1] = "- " .. escape(sentence) .. (i == #details and "\n" or "") end
      local params = params_of(entry.rows[1], link)
      if params then out[#out + 1] = params end
      local related = {}
      for i, heading in ipairs(entry.related) do related[i] = link(heading, heading) end
      if related[1] then out[#out + 1] = "See also " .. table.concat(related, ", ") .. ".\n" end
      local links = not entry.heading:find ":" and links_of(uses, entry.heading)
      if links then out[#out + 1] = links end
    end
    pages[group.file] = table.concat(out, "\n")
    index[#index + 1] = ("| [%s](%s.md) | %s | %d |"):format(group.title, group.file, group.text, #group.order)
    toc[#toc + 1] = group.file
  end
  index[#index + 1] = "\nAlso here: [environment variables](environment.md), [exit codes](exit_codes.md), [names from elsewhere](elsewhere.md), [names of PyTorch](torch_names.md).\n"
  index[#index + 1] = "```{toctree}\n:hidden:\n\n" .. table.concat(toc, "\n") .. "\nenvironment\nexit_codes\nelsewhere\ntorch_names\n```"
  pages.index = table.concat(index, "\n") .. "\n"
  for heading in pairs(examples) do assert(at[heading], "the example of " .. heading .. ", which has no entry") end
  return pages, entries, names, shown_examples, places
end
