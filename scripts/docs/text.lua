-- Checks the text of the README and of the manual: links between pages, the README's limits, the length of sentences, and
-- turns of phrase that we do not use. Prints `file:line: what`, exits with 1 when something is wrong.
-- usage, in the source tree: tide scripts/docs/text.lua
local failures = 0
local function complain(path, line, text)
  failures = failures + 1
  print(("%s:%d: %s"):format(path, line, text))
end

local read = dofile((arg[0]:match "^(.*/)" or "") .. "file.lua").read

local manual = "scripts/docs/manual/"
local pages = { "README.md", "SCOPE.md" }
for path in io.popen("find " .. manual .. " -name '*.md' | sort"):lines() do pages[#pages + 1] = path end

-- The lines of a page outside of code blocks; those inside become empty.
local function prose_lines(text)
  local out, inside = {}, false
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local fence = line:find "^```"
    out[#out + 1] = (inside or fence) and "" or line
    if fence then inside = not inside end
  end
  return out
end

-- ---- links ----
-- What the build writes: the reference, the gallery, and the pictures of blocks.
local made = {}
for _, group in ipairs(dofile "scripts/docs/groups.lua") do
  made[manual .. "reference/" .. group.file .. ".md"] = true
  if not read(manual .. group.learn) then complain("scripts/docs/groups.lua", 1, group.learn .. " does not exist") end
end
made[manual .. "reference/elsewhere.md"], made[manual .. "reference/torch_names.md"] = true, true
made[manual .. "reference/index.md"], made[manual .. "gallery/index.md"] = true, true
for name in read("scripts/docs/site.sh"):gmatch "[%w_/]+/([%w_]+%.png)" do made[manual .. "pictures/" .. name] = true end
for _, path in ipairs(pages) do
  for name in (read(path) or ""):gmatch '"([%w_]+%.[pg][ni][gf])"' do made[manual .. "pictures/" .. name] = true end
end

local function normal(path)
  path = path:gsub("/%./", "/")
  while path:find "[^/]+/%.%./" do path = path:gsub("[^/]+/%.%./", "", 1) end
  return path
end

local function anchors_of(text)
  local anchors = {}
  for _, line in ipairs(prose_lines(text)) do
    local title = line:match "^#+ (.*)$"
    if title then anchors[title:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-")] = true end
  end
  return anchors
end

local function exists(path)
  return made[path] or os.rename(path, path) ~= nil -- a folder, too
end

local function check_links(path, text)
  for number, line in ipairs(prose_lines(text)) do
    for target in line:gsub("`[^`]*`", ""):gmatch "%]%(([^)%s]+)%)" do
      local page, anchor = target:match "^([^#]*)#?(.*)$"
      if not target:find "^%a+:" then
        local file = page == "" and path or normal((path:match "^.*/" or "") .. page)
        if not exists(file) then
          complain(path, number, "the link " .. target .. " leads nowhere")
        elseif path:sub(1, #manual) == manual and file:sub(1, #manual) ~= manual then
          complain(path, number, "the link " .. target .. " leaves the manual: name the file instead")
        elseif anchor ~= "" and not made[file] and not anchors_of(read(file))[anchor] then
          complain(path, number, "no heading for the link " .. target)
        end
      end
    end
  end
end

-- ---- every page is in a table of contents ----
local function check_contents()
  local listed = { [manual .. "index.md"] = true }
  for _, path in ipairs(pages) do
    for list in (read(path) or ""):gmatch "```{toctree}\n(.-)```" do
      for entry in list:gmatch "[^\n]+" do
        if not entry:find "^:" then listed[normal(path:match "^.*/" .. entry .. ".md")] = true end
      end
    end
  end
  listed[manual .. "reference/environment.md"], listed[manual .. "reference/exit_codes.md"] = true, true -- by reference_pages.lua
  for _, path in ipairs(pages) do
    if path:sub(1, #manual) == manual and not listed[path] then complain(path, 1, "is in no table of contents") end
  end
end

-- ---- code that fits the column of a page ----
local widest = 96
local function check_width(path, text)
  local number, inside = 0, false
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if line:find "^```" then
      inside = not inside and line:find "^```lua" ~= nil
    elseif inside and #line > widest then
      complain(path, number, ("code of %d columns, at most %d"):format(#line, widest))
    end
  end
end

-- ---- sentences ----
local turns = dofile "scripts/checks/hard_turns.lua"

local function check_turns(path, text)
  for number, line in ipairs(prose_lines(text)) do
    local words = " " .. line:lower():gsub("`[^`]*`", " "):gsub("[^%w']+", " ") .. " "
    for _, turn in ipairs(turns) do
      if words:find(" " .. turn .. " ", 1, true) then complain(path, number, ("say \"%s\" otherwise"):format(turn)) end
    end
  end
end

-- The sentences of paragraphs and lists, without tables, headings and markup: {line=, words=}.
local function sentences_of(text)
  local out, current, start = {}, {}, 1
  local function finish()
    if #current > 0 then out[#out + 1] = { line = start, words = #current, text = table.concat(current, " ") } end
    current = {}
  end
  for number, line in ipairs(prose_lines(text)) do
    local plain = not line:find "^[|#<!(:]" and line:gsub("`[^`]*`", "code"):gsub("!?%[(.-)%]%b()", "%1") or ""
    if plain == "" or plain:find "^%s*[-*] " or plain:find "^%s*%d+%. " then finish() end
    for word in plain:gsub("^%s*[-*] ", ""):gsub("^%s*%d+%. ", ""):gmatch "%S+" do
      if #current == 0 then start = number end
      if word:find "%w" then current[#current + 1] = word end
      if word:find "[.!?:][\"')*]*$" then finish() end
    end
  end
  finish()
  return out
end

local function check_sentences(path, text)
  local list, words = sentences_of(text), 0
  for _, sentence in ipairs(list) do
    words = words + sentence.words
    if sentence.words > 30 then complain(path, sentence.line, ("a sentence of %d words: %s"):format(sentence.words, sentence.text)) end
  end
  if #list > 0 and words / #list > 18 then complain(path, 1, ("%.1f words a sentence, at most 18"):format(words / #list)) end
end

for _, path in ipairs(pages) do
  local text = read(path)
  if not text then
    complain(path, 1, "is missing")
  else
    check_links(path, text)
    if path:sub(1, #manual) == manual then check_width(path, text) end
    check_turns(path, text)
    check_sentences(path, text)
  end
end
check_contents()

local readme = read "README.md"
local _, lines = readme:gsub("\n", "")
local _, words = readme:gsub("%S+", "")
if lines > 120 then complain("README.md", 120, lines .. " lines, at most 120") end
if words > 1000 then complain("README.md", 1, words .. " words, at most 1000") end
print(failures == 0 and ("text: %d pages are in order"):format(#pages) or ("text: %d complaints"):format(failures))
os.exit(failures == 0 and 0 or 1)
