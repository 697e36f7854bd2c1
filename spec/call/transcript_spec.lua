-- Transcripts: spec/corpus/transcripts/*.txt say what expressions give, above all the whole text of errors and what lies at
-- the ends of ranges. A line "> code" is an expression or a statement; below it stands what it gives, or "! " and its
-- error. The lines of a file share their globals. device.txt is of three simulated devices.
-- TIDE_RECORD=1 writes what is given now into the files: read the differences before they are committed.

local D = require "spec.support.device"
local checks = require "spec.support.checks"

local function show(v)
  if type(v) == "number" and v ~= math.floor(v) then return ("%.6g"):format(v) end
  if type(v) ~= "table" or debug.getmetatable(v) then return tostring(v) end
  local parts, keys = {}, {}
  for i = 1, #v do parts[i] = show(v[i]) end
  for k in pairs(v) do if type(k) == "string" then keys[#keys + 1] = k end end
  table.sort(keys)
  for _, k in ipairs(keys) do parts[#parts + 1] = k .. "=" .. show(v[k]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function evaluate(code, env)
  local f, err = load("return " .. code, "=transcript", "t", env)
  if not f then f, err = load(code, "=transcript", "t", env) end
  if not f then return "! " .. err end
  local r = table.pack(pcall(f))
  if not r[1] then
    local e = r[2]
    return "! " .. (type(e) == "string" and e or e.kind and e.kind .. ": " .. e.message or tostring(e))
  end
  for i = 2, r.n do r[i - 1] = show(r[i]) end
  return table.concat(r, ", ", 1, r.n - 1)
end

-- The names of temporary files and addresses differ between runs; a blank line ends a result.
local function given(...) return (evaluate(...):gsub("/tmp/[%w_]+", "/tmp/file"):gsub("0x%x+", "0x"):gsub("\n\n", "\n"):gsub("\n+$", "")) end

-- The file's parts: {code or nil, text}, in order.
local function read(path)
  local parts, last = {}, nil
  for line in io.lines(path) do
    local code = line:match "^> (.*)"
    if code or line == "" or line:match "^# " then
      last = { code, code and "" or line, is_code = code ~= nil }
      parts[#parts + 1] = last
    else
      last[2] = last[2] .. (last[2] == "" and "" or "\n") .. line
    end
  end
  return parts
end

describe("transcripts", function()
  D.watch(before_each, after_each)
  for path in io.popen "ls spec/corpus/transcripts/*.txt":lines() do
    local name = path:match "([^/]+)%.txt$"
    if name == "device" and (not D.simulated or D.devices ~= 3) or name ~= "device" and D.cuda or not D.compiler then
      it("of " .. name .. " are as they were", function() return pending "needs other devices, or a compiler" end)
    else
      it("of " .. name .. " are as they were", function()
        local env, wrong, out = setmetatable({ tide = tide }, { __index = _G }), {}, {}
        for _, part in ipairs(read(path)) do
          local text = part.is_code and given(part[1], env) or part[2]
          checks.count = checks.count + 1
          if text ~= part[2] then wrong[#wrong + 1] = ("> %s\n  gave %s\n  expected %s"):format(part[1], text, part[2]) end
          if part.is_code then out[#out + 1] = "> " .. part[1] end
          if text ~= "" or not part.is_code then out[#out + 1] = text end
        end
        if os.getenv "TIDE_RECORD" then
          local file <close> = assert(io.open(path, "w"))
          file:write(table.concat(out, "\n"), "\n")
        else
          assert.are.equal("", table.concat(wrong, "\n"))
        end
        for k in pairs(env) do env[k] = nil end
      end)
    end
  end
end)
