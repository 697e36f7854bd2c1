-- tide --notebook: requests on its standard input, replies among what the cells print.

local D = require "spec.support.device"

-- The replies to requests {kind, text}, as {kind, text} too; what cells print is of kind "out".
local function replies(requests)
  local folder, input, list, at = os.tmpname(), {}, {}, 1
  os.remove(folder)
  os.execute("mkdir " .. folder)
  for i, r in ipairs(requests) do input[i] = ("%s %d cell %d\n%s"):format(r[1], #r[2], i, r[2]) end
  local out, err, code = D.run({ "--notebook", folder }, { input = table.concat(input) })
  assert.are.equal("0", code .. err)
  while at <= #out do
    local from, to, kind, n = out:find("\27%]" .. folder:gsub("%p", "%%%0") .. ";(%l+);(%d+)\7", at)
    if (from or #out + 1) > at then list[#list + 1] = { "out", out:sub(at, (from or 0) - 1) } end
    if from then list[#list + 1] = { kind, out:sub(to + 1, to + n) } end
    at = from and to + n + 1 or #out + 1
  end
  os.remove(folder) -- which stays where there are pictures in it
  return list, folder
end

describe("a notebook", function()
  it("runs cells, which share their globals, and says where one failed", function()
    local list = replies { { "run", "x = tide.ones(2)\nx:sum()" }, { "run", "print(x:size()[1])" }, { "run", "y =\n(1" }, { "run", "local a\nerror 'boom'" },
      { "run", "" } }
    local kinds = {}
    for i, r in ipairs(list) do kinds[i] = r[1] end
    assert.are.equal("result done out done error done error done done", table.concat(kinds, " "))
    assert.are.same({ "tensor(2.)", "2\n" }, { (list[1][2]:gsub("\n$", "")), list[3][2] })
    assert.matches("cell 3:2:", list[5][2])
    assert.matches("cell 4:2: boom", list[7][2])
  end)

  it("completes the word before the cursor", function()
    local list = replies { { "run", "x = tide.ones(2)" }, { "complete", "x:cums" }, { "complete", "y = 1\nx:cums" }, { "complete", "tide.lin" },
      { "complete", "nothing_of_the_kind" } }
    assert.are.same({ { "done", "" }, { "matches", "cums\ncumsum\ncumsum_" }, { "matches", "cums\ncumsum\ncumsum_" },
      { "matches", "lin\nlinalg\nlinspace" }, { "matches", "nothing_of_the_kind\n" } }, list)
  end)

  it("has the help of the call or name before the cursor", function()
    local list = replies { { "run", "x = tide.ones(2)" }, { "inspect", "x:cumsum(" }, { "inspect", "tide.linspace" }, { "inspect", "nothing_of_the_kind" } }
    assert.matches("^x:cumsum", list[2][2])
    assert.matches("^tide.linspace", list[3][2])
    assert.are.same({ "help", "" }, list[4])
  end)

  it("shows pictures as files", function()
    local list, folder = replies { { "run", "tide.plot({ 1, 2 })" }, { "run", "tide.plot({ 1, 3 })" } }
    for i = 1, 2 do
      local path = folder .. "/" .. i .. ".png"
      assert.are.same({ { "picture", path }, { "done", "" } }, { list[2 * i - 1], list[2 * i] })
      assert.are.same({ 560, 800, 3 }, tide.load_png(path):size())
      os.remove(path)
    end
    os.remove(folder)
  end)
end)
