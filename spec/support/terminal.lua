-- The prompt in a terminal: plays steps to it by spec/c/terminal.c. A step is a text that is typed, {expect = text},
-- {paste = text} (as a terminal pastes it, between its two marks), {interrupt = n}, {stop = text} (Ctrl-C up to
-- five times until the text comes) M.settle (until all was read) or M.rest (and for a while:
-- after Ctrl-C in a paste what still comes of it is dropped).

local D = require "spec.support.device"
-- Under a sanitizer the program may sleep for longer in the middle of an answer.
local M = { settle = { settle = 4 * D.every }, rest = { settle = 80 } }

local function escape(s) return (s:gsub("[%c\\]", function(c) return ("\\x%02x"):format(c:byte()) end)) end

local function line(step)
  if type(step) == "string" then return "send " .. escape(step) end
  if step.expect then return "expect " .. escape(step.expect) end
  if step.stop then return "stop " .. escape(step.stop) end
  if step.settle then return "settle " .. step.settle end
  if step.interrupt then return "interrupt " .. step.interrupt end
  local lines, text = {}, "\27[200~" .. step.paste:gsub("\n", "\r") .. "\27[201~"
  for at = 1, #text, 8000 do lines[#lines + 1] = "send " .. escape(text:sub(at, at + 7999)) end
  return table.concat(lines, "\n")
end

-- What the session wrote, and its exit code. Begins behind the first prompt; ends with whatever the steps end with.
function M.session(steps, options)
  options = options or {}
  local script, history = os.tmpname(), os.tmpname()
  local lines = { "expect > " }
  for i, step in ipairs(steps) do lines[i + 1] = line(step) end
  local file = assert(io.open(script, "w"))
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
  local words = { "env", "TERM=" .. (options.term or "xterm"), "TIDE_HISTORY=" .. (options.history or history) }
  for k, v in pairs(options.env or {}) do words[#words + 1] = k .. "=" .. D.quote(v) end
  words[#words + 1] = D.quote((D.runner:gsub("bin/tide$", "spec/terminal")))
  words[#words + 1] = script
  words[#words + 1] = D.quote(D.runner)
  words[#words + 1] = options.args or ""
  local pipe = io.popen(table.concat(words, " ") .. " 2>&1")
  local text = pipe:read "a"
  local _, how, code = pipe:close()
  os.remove(script)
  os.remove(history)
  return text, how == "signal" and 128 + code or code
end

return M
