-- turns.lua: turns of speech that make a sentence hard are counted in comments and public text; their number only falls.
-- The refusal specs quote core's messages, which are counted in core.
--
--   tide scripts/checks/turns.lua [--list]     --list: where they stand

local turns = dofile "scripts/checks/hard_turns.lua"
local limit = 1292

local function count(path, text, list, first)
  local n = 0
  for number, line in (function()
    local i = (first or 1) - 1
    local lines = text:gmatch "[^\n]*"
    return function() local line = lines() if line then i = i + 1 return i, line end end
  end)() do
    local words = " " .. line:lower():gsub("[^%w]+", " ") .. " "
    for _, turn in ipairs(turns) do
      local from = 1
      while true do
        local at, till = words:find(" " .. turn .. " ", from, true)
        if not at then break end
        n, from = n + 1, till
        if list then print(("%s:%d: %s"):format(path, number, turn)) end
      end
    end
  end
  return n
end

local total = 0
for path in io.popen "git ls-files -co --exclude-standard core kernels lua_bindings scripts spec '*.md'":lines() do
  local named = path:find "%.[chd]e?f?$" or path:find "%.lua$" or path:find "%.md$" or path:find "%.cuh?$"
  local file = named and path ~= "scripts/checks/hard_turns.lua" and not path:find "refusal_%a+%.%a+$" and io.open(path)
  if file then
    total = total + count(path, file:read "a", arg[1] == "--list")
    file:close()
  end
end
print(("turns: %d, the limit is %d"):format(total, limit))
if total < limit then print "turns: fewer than the limit: lower it in scripts/checks/turns.lua" end
if total > limit then
  print "turns: say it in other words. --list shows all; lines that are not committed yet have:"
  local path, number
  for line in io.popen "git diff -U0 HEAD":lines() do
    path, number = line:match "^%+%+%+ b/(.*)" or path, tonumber(line:match "^@@ .*%+(%d+)") or number
    if line:find "^%+[^+]" then
      count(path, line:sub(2), true, number)
      number = number + 1
    end
  end
end
os.exit(total <= limit, true)
