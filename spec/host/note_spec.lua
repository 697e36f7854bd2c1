-- tide.note: a line with the time and the device.
local D = require "spec.support.device"

local function line_of(code, env)
  local out, err, code_of = D.run({ "-e", code }, { env = env })
  assert.are.equal(0, code_of, err)
  return err, out
end

describe("note", function()
  it("writes a line to stderr: the time, the device, the arguments", function()
    local err, out = line_of "tide.note('step', 10, nil, true, tide.ones(2), {} ~= nil) print 'out'"
    assert.matches("^%[%d%d:%d%d:%d%d%.%d%d%d cpu%] step 10 nil true tensor%(%[1%., 1%.%]%) true\n$", err)
    assert.are.equal("out\n", out)
    assert.matches("^%[[%d:.]+ cpu%]\n$", (line_of "tide.note()"))
    assert.matches("%] a\nb\n$", (line_of "tide.note('a\\nb')"))
    assert.matches("%] text of it\n$", (line_of "tide.note(setmetatable({}, { __tostring = function() return 'text of it' end }))"))
    local many = line_of "tide.note(table.unpack({}, 1, 300))"
    assert.are.equal(300, select(2, many:gsub(" nil", "")))
  end)

  it("names the current device once a GPU is in use", function()
    local err = line_of("tide.cuda.set_device(1) tide.ones(1, { device = 'cuda' }) tide.note 'here'", { TIDE_SIM_DEVICES = "2" })
    assert.matches("^%[[%d:.]+ cuda:1%] here\n$", err)
  end)
end)
