-- help at the prompt: the entries of tide.help, and the pages of the manual as text for the terminal.
--
-- A page is a Markdown file below share/tide/manual, which manual_text reads. The lists `toctree` of the index pages say
-- which there are. A topic is a page's path without ".md"; its last part alone names it, too.

local M = ...
local help = use "help/help"
local libraries = use("runner/repl_session.c", "libraries")
local manual_text, nearest_of, manual_folder = use("runner/runner_manual.c", "manual_text", "nearest_of", "manual_folder")
local lower, has_word, methods, tide = use("help/doc.c", "lower", "has_word", "methods", "tide")
local string = libraries()
local match, gmatch, gsub, rep = string.match, string.gmatch, string.gsub, string.rep
local entries = public("tide", "help")

-- ---- the pages ----

local rooms = { "start", "learn", "howto", "embed", "from", "why", "reference" }
local written = { reference = "environment\nexit_codes\n" } -- pages of a room whose index is made with the site

local all_topics

-- The list of {topic, title, text}.
local function topics()
  if all_topics then return all_topics end
  local list = {}
  for _, room in next, rooms do
    local names = written[room] or match(manual_text(room .. "/index.md") or "", "\n```{toctree}\n:hidden:\n\n(.-)```") or ""
    for name in gmatch(names, "[^\n]+") do
      local text = manual_text(room .. "/" .. name .. ".md")
      local title = text and match(text, "^# ([^\n]+)")
      if title and not find(text, "\n```{include}") then list[#list + 1] = { topic = room .. "/" .. name, title = title, text = text } end
    end
  end
  if list[1] then all_topics = list end
  return list
end

local function short_name(topic) return match(topic, "[^/]+$") end

-- The page that the query names: "streams", "learn/streams", "several gpus", "Streams and events".
local function page_named(query)
  local name = gsub(gsub(lower(query), " ", "_"), "%.md$", "")
  for _, page in next, topics() do
    if name == page.topic or name == short_name(page.topic) or lower(query) == lower(page.title) then return page end
  end
end

-- ---- from Markdown to lines ----

local function larger(a, b) return a > b and a or b end
-- Characters of UTF-8.
local function length(text) return #(gsub(text, "[\128-\191]", "")) end

local function width()
  local columns = columns()
  return columns > 100 and 100 or columns < 20 and 20 or columns
end

-- Links to pages become their text, other links keep their address.
local function inline(text)
  text = gsub(text, "!%[([^%]]*)%]%([^()]*%)", "[picture: %1]")
  text = gsub(text, "%[([^%[%]]+)%]%((https?:[^()%s]+)%)", "%1 (%2)")
  text = gsub(text, "%[([^%[%]]+)%]%([^()%s]+%)", "%1")
  return (gsub(gsub(text, "%*%*([^*]+)%*%*", "%1"), "\\([|*_<>])", "%1"))
end

-- Appends the words of the text, wrapped; `first` stands before the first line, a bar or blanks of its length before the others.
local function add_wrapped(out, text, first, columns)
  local line, indent = first, first == "  | " and first or rep(" ", length(first))
  local is_empty = true
  for word in gmatch(text, "%S+") do
    if not is_empty and length(line) + 1 + length(word) > columns then
      out[#out + 1], line, is_empty = line, indent, true
    end
    line, is_empty = line .. (is_empty and "" or " ") .. word, false
  end
  out[#out + 1] = line
end

-- The cells of a row. A bar within code or behind a backslash is no border.
local function cells_of(line)
  local cells, is_code, from = {}, false, 2
  for i = 2, #line do
    local char = sub(line, i, i)
    if char == "`" then is_code = not is_code end
    if char == "|" and not is_code and sub(line, i - 1, i - 1) ~= "\\" then
      cells[#cells + 1] = inline(match(sub(line, from, i - 1), "^%s*(.-)%s*$"))
      from = i + 1
    end
  end
  return cells
end

-- The widths of the columns and their sum with the gaps. The widest column gives way until all of them fit; none gets
-- narrower than its longest word.
local function column_widths(rows, columns)
  local widths, least, total = {}, {}, -2
  for _, cells in next, rows do
    for i = 1, #cells do
      widths[i], least[i] = larger(widths[i] or 1, length(cells[i])), least[i] or 1
      for word in gmatch(cells[i], "%S+") do least[i] = larger(least[i], length(word)) end
    end
  end
  for i = 1, #widths do total = total + widths[i] + 2 end
  while total > columns do
    local widest
    for i = 1, #widths do
      if widths[i] > least[i] and (not widest or widths[i] > widths[widest]) then widest = i end
    end
    if not widest then break end
    widths[widest], total = widths[widest] - 1, total - 1
  end
  return widths, total
end

local function add_row(out, cells, widths)
  local parts, height = {}, 1
  for i = 1, #widths do
    parts[i] = {}
    add_wrapped(parts[i], cells[i] or "", "", widths[i])
    height = larger(height, #parts[i])
  end
  for k = 1, height do
    local line = ""
    for i = 1, #widths do
      local part = parts[i][k] or ""
      line = line .. part .. rep(" ", widths[i] - length(part) + 2)
    end
    out[#out + 1] = match(line, "^(.-)%s*$")
  end
end

-- A table that is too wide: the cells of a row below each other, the others behind the first one.
local function add_stacked(out, rows, columns)
  for i = 2, #rows do
    for k, cell in next, rows[i] do
      local head = k > 1 and rows[1][k] ~= "" and rows[1][k] .. ": " or ""
      if cell ~= "" then add_wrapped(out, head .. cell, k > 1 and "  " or "", columns) end
    end
  end
end

local function add_table(out, lines, columns)
  local rows = {}
  for i = 1, #lines do
    if i ~= 2 then rows[#rows + 1] = cells_of(lines[i]) end
  end
  local widths, total = column_widths(rows, columns)
  if total > columns then return add_stacked(out, rows, columns) end
  local has_head = join(rows[1]) ~= ""
  for i = has_head and 1 or 2, #rows do
    add_row(out, rows[i], widths)
    if i == 1 then out[#out + 1] = rep("-", total) end
  end
end

-- Code is indented. Output stands behind a bar, and its long lines are wrapped.
local function add_code(out, fence, lines, columns)
  if sub(fence, 1, 4) == "```{" then return end
  local is_output = fence == "```text"
  for i = 1, #lines do
    if is_output and length(lines[i]) + 4 > columns and find(lines[i], " ") then
      add_wrapped(out, lines[i], "  | ", columns)
    else
      out[#out + 1] = match((is_output and "  | " or "    ") .. lines[i], "^(.-)%s*$")
    end
  end
  out[#out + 1] = ""
end

-- The page in lines of at most that width. Code keeps its lines.
local function rendered(text, columns)
  local out, block = {}, {}
  local first, fence = "", nil
  local function flush()
    if block[1] and sub(block[1], 1, 1) == "|" then
      add_table(out, block, columns)
    elseif block[1] then
      add_wrapped(out, inline(join(block, " ")), first, columns)
    end
    block, first = {}, ""
  end
  local function blank()
    flush()
    if #out > 0 and out[#out] ~= "" then out[#out + 1] = "" end
  end
  for line in gmatch(text, "([^\n]*)\n?") do
    local marks, heading = match(line, "^(#+) (.*)$")
    local bullet, item = match(line, "^(%s*[-*] +)(.*)$")
    if not bullet then bullet, item = match(line, "^(%s*%d+%. +)(.*)$") end
    if fence and sub(line, 1, 3) == "```" then
      add_code(out, fence, block, columns)
      block, fence = {}, nil
    elseif fence then
      block[#block + 1] = line
    elseif sub(line, 1, 3) == "```" then
      blank()
      fence = match(line, "^```[{]?%a*")
    elseif marks then
      blank()
      heading = inline(heading)
      out[#out + 1] = heading
      out[#out + 1] = rep(#marks == 1 and "=" or "-", length(heading))
    elseif bullet then
      flush()
      block, first = { item }, bullet
    elseif line == "" then
      blank()
    else
      block[#block + 1] = line
    end
  end
  blank()
  if out[#out] == "" then out[#out] = nil end
  return join(out, "\n")
end

-- ---- lists of pages ----

-- The pages with their titles, and the section where that fits.
local function listed(pages)
  local out, widest = "", 0
  for _, page in next, pages do widest = larger(widest, #page.topic) end
  for _, page in next, pages do
    local line = "  help '" .. page.topic .. "'" .. rep(" ", widest - #page.topic + 2) .. inline(page.title)
    local section = page.section and page.section ~= page.title and ": " .. inline(page.section) or ""
    out = out .. "\n" .. line .. (length(line .. section) <= width() and section or "")
  end
  return out
end

local most_near = 5

local function has_all(text, query)
  local n = 0
  for word in gmatch(query, "[%w\128-\255]+") do
    if #word > 2 and not has_word(text, word) then return false end
    if #word > 2 then n = n + 1 end
  end
  return n > 0
end

-- The first section of the page that has all words of the query in its heading, or in its text: the heading.
local function section_of(page, query, in_text)
  local heading = page.title
  for line in gmatch(page.text .. "\n# ", "([^\n]*)\n") do
    local title = match(line, "^#+ (.*)$")
    heading = title or heading
    if (title or in_text) and has_all(lower(line), query) then return heading end
  end
end

-- Pages, by rank: a word of the query is in the name or title, all words are in a heading, the name is spelled much like
-- it, all words are in a line.
local function near_pages(query, last_rank)
  local found, out, names = { {}, {}, {}, {} }, {}, {}
  query = lower(query)
  for i, page in next, topics() do names[i] = short_name(page.topic) end
  local meant = nearest_of(gsub(query, " ", "_"), names)
  for _, page in next, topics() do
    local rank = short_name(page.topic) == meant and 3 or nil
    local section = section_of(page, query)
    if section then
      rank = 2
    elseif not rank and last_rank == 4 then
      section = section_of(page, query, true)
      rank = section and 4
    end
    for word in gmatch(query, "%w+") do
      local title = gsub(lower(page.title .. " " .. page.topic), "[_/]", " ")
      if #word > 2 and (has_word(title, word) or has_word(title, word .. "s")) then rank = 1 end
    end
    if rank then found[rank][#found[rank] + 1] = { topic = page.topic, title = page.title, section = rank > 1 and section, rank = rank } end
  end
  for rank = 1, last_rank do
    for _, page in next, found[rank] do
      if #out < most_near then out[#out + 1] = page end
    end
  end
  return out
end

local function not_installed() return "The pages of the manual are not installed: there is no " .. manual_folder() .. "/index.md" end

local function all_pages()
  if not topics()[1] then return not_installed() end
  return "The pages of the manual. help 'streams' shows one of them.\n" .. listed(topics())
end

-- ---- help ----

-- Is it the name of a function of the module's, or of a method?
local function is_function(query)
  return type(rawget(tide(), query)) == "function" or type(rawget(methods(), query)) == "function"
end

-- What tide.help gives, or nil and its error.
local function entry_of(query)
  local text
  local ok, e = try(function() text = entries(query) end)
  return text, not ok and e or nil
end

local function page_text(page)
  local entry = entry_of(short_name(page.topic))
  local more = entry and sub(entry, 1, 4) == "tide" and "\n\nThe name: help '" .. match(entry, "^[%w_.]+") .. "'" or ""
  return rendered(page.text, width()) .. more
end

local function with_pages(text, query)
  local page = page_named(query)
  local is_entry = sub(text, 1, 4) ~= "See:" and sub(text, 1, #query + 2) ~= query .. ": "
  local pages = page and { page } or is_entry and {} or near_pages(query, 2)
  if not pages[1] then return help.wrapped(text) end
  return help.wrapped(text) .. "\n\nManual:" .. listed(pages)
end

-- M.prompt_help(...): what help shows for its arguments, in lines that fit the terminal.
function M.prompt_help(...)
  local query = ...
  if count(...) ~= 1 or type(query) ~= "string" then return help.wrapped(entries(...)) end
  if lower(query) == "manual" then return all_pages() end
  local page = not is_function(query) and page_named(query)
  if page then return page_text(page) end
  local text, e = entry_of(query)
  if text then return with_pages(text, query) end
  local message = type(e) == "table" and rawget(e, "message")
  if type(message) ~= "string" or rawget(e, "kind") ~= "ValueError" then throw(e) end
  local pages = near_pages(query, 4)
  if pages[1] and pages[1].rank ~= 3 then
    return help.wrapped(gsub(gsub(message, "^help: ", ""), "; help%(%) tells how to search", "")) .. "\n\nManual:" .. listed(pages)
  end
  if pages[1] then message = message .. "\nDid you mean a page of the manual?" .. listed(pages) end
  if not topics()[1] then message = message .. "\n" .. not_installed() end
  fail("ValueError", message)
end
