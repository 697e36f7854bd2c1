-- The table of functions: every public name has a row, with a signature that says what each option is, and a text; and
-- what stands in a row is there.
local tide = require "tide"
local D = require "spec.support.device"

-- Functions under their names: those of the module's tables, and the methods of every class.
local function public()
  local list, seen = {}, { [tide.Tensor] = true }
  local function add(path, name, f)
    if type(name) == "string" and type(f) == "function" and name:sub(1, 1) ~= "_" then list[#list + 1] = { path .. name, f } end
  end
  local function walk(t, path)
    if seen[t] then return end
    seen[t] = true
    for k, v in pairs(t) do
      add(path, k, v)
      if type(v) == "table" and type(k) == "string" and k:sub(1, 1) ~= "_" then walk(v, path .. k .. ".") end
    end
  end
  walk(tide, "tide.")
  for k, v in pairs(tide.Tensor) do add("x:", k, v) end
  for name, meta in pairs(debug.getregistry()) do
    if type(name) == "string" and name:find "^tide%." and type(meta) == "table" then
      local index = rawget(meta, "__index")
      if type(index) == "function" then index = select(2, debug.getupvalue(index, 1)) end
      if type(index) == "table" and index ~= tide.Tensor and not seen[index] then
        for k, v in pairs(index) do add(name .. ":", k, v) end
      end
    end
  end
  return list
end

describe("the table of functions", function()
  local rows = tide._rows()

  it("has every public function", function()
    local list, missing = public(), {}
    for _, entry in ipairs(list) do
      if not pcall(tide.help, entry[2]) then missing[#missing + 1] = entry[1] end
    end
    table.sort(missing)
    assert.are.equal("", table.concat(missing, " "))
    assert.is_true(#list > 800, #list)
  end)

  it("has a signature and a text for each, and says what each option is", function()
    for _, row in ipairs(rows) do
      local name = row.path .. " " .. row.name
      assert.is_truthy(row.signature, name)
      assert.is_true(#row.text > 0, name)
      assert.is_nil(row.signature:find "%f[%w]opts%f[%W]", name)
      if row.callable then assert.is_truthy(row.params, name) end
      local seen = {}
      for _, p in ipairs(row.params or {}) do
        assert.is_nil(seen[p.name], name .. " has " .. p.name .. " twice")
        seen[p.name] = true
      end
    end
  end)

  it("has no row without what it tells of", function()
    for _, row in ipairs(rows) do
      if row.path:find "^tide" then
        local full = row.path .. "." .. row.name
        assert.is_true(row.name:sub(1, 1) == "_" or tide.has(full), full)
      elseif row.path == "Tensor" then
        local is = row.name:sub(1, 2) == "__" or tide.has("Tensor:" .. row.name) or tide.ones(2, 2)[row.name] ~= nil
        assert.is_true(is, row.name)
      end
    end
  end)

  it("gives each call its option keys", function()
    local x = tide.ones(2, 2)
    assert.are.same({ 1 }, x:count_nonzero { keepdim = true, dim = { 1, 2 } }:size() and { 1 })
    assert.is_truthy(tide.help "count_nonzero":find("keepdim=false", 1, true))
    for _, row in ipairs(rows) do
      if row.path == "Tensor" and row.name == "norm" then
        local names = {}
        for i, p in ipairs(row.params) do names[i] = p.name end
        assert.are.same({ "x", "p", "dim", "keepdim", "out", "dtype" }, names)
        assert.are.equal("2", row.params[2].default)
        assert.is_true(row.params[5].option and not row.params[3].option)
      end
    end
  end)
end)

describe("the reference", function()
  it("is written out of the table: pages, stubs that Lua reads, a man page", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert.is_truthy(os.execute("mkdir " .. folder))
    local out = D.run { "scripts/docs/reference.lua", folder }
    local entries, examples = out:match "(%d+) entries, %d+ names, (%d+) examples"
    assert.are.equal(entries, examples, "entries without an example")
    local function read(name)
      local file = assert(io.open(folder .. "/" .. name))
      local text = file:read "a"
      file:close()
      return text
    end
    local main = read "stubs/tide.lua"
    assert.is_truthy(load(main, "=tide.lua"))
    for _, what in ipairs { "---@operator add(tide.Tensor|number): tide.Tensor", "---@operator len: integer", "---@field linalg tide.linalg",
      "---@class tide.kernel\n---@overload fun(fn: any, options?: {", "_G.tide = tide", "return tide" } do
      assert.is_truthy(main:find(what, 1, true), what)
    end
    local reduce = read "stubs/tide/reduce.lua"
    assert.is_truthy(reduce:find("---@param options? {keepdim?: boolean", 1, true))
    assert.is_truthy(reduce:find("---@overload fun(x: tide.Tensor, options: {dim?: integer|integer[], keepdim?: boolean", 1, true))
    assert.is_truthy(reduce:find("---@overload fun(self: tide.Tensor, options: {dim?: integer|integer[], keepdim?: boolean", 1, true))
    assert.is_truthy(reduce:find("\nfunction Tensor:sum(dim, options) end", 1, true))
    -- Every function has one stub, in the file of its noun, and files are Lua.
    local stubs, n_stubs = {}, 0
    for file in io.popen("ls " .. folder .. "/stubs/tide/*.lua"):lines() do
      local text = read(file:sub(#folder + 2))
      assert.is_truthy(load(text, "=" .. file))
      assert.is_nil(text:find("@generic", 1, true), file)
      for name in text:gmatch "\nfunction ([%w_.:]+)%(" do
        assert.is_nil(stubs[name], name)
        stubs[name], n_stubs = file, n_stubs + 1
      end
    end
    assert.is_true(n_stubs > 900, n_stubs)
    for _, row in ipairs(tide._rows()) do
      local is_here = row.callable and row.params and row.name:sub(1, 1) ~= "_" and row.path ~= "class" and not row.path:find "^tide%.ffi"
      local is_module = row.path:find "^tide"
      local path = is_module and row.path:gsub("^tide%.", ""):gsub("%.", "_") or row.path
      local stub = stubs[path .. (is_module and "." or ":") .. row.name]
      local full = row.path .. "." .. row.name
      assert.is_true(not is_here or stub ~= nil or main:find("---@class " .. full .. "\n---@overload", 1, true) ~= nil, full)
    end
    local n, headings = 0, {}
    for page in read("reference/index.md"):gmatch "\n| %[[^]]+%]%((%w+%.md)%)" do
      local text = read("reference/" .. page)
      assert.is_nil(text:find "https?://")
      for heading in text:gmatch "\n## `([^`]+)`\n" do
        assert.is_nil(headings[heading], heading)
        headings[heading] = true
      end
      n = n + 1
    end
    assert.is_true(n > 15, n)
    -- Every public name of the runner has an entry, and in place forms share the entry of their function. (LuaJIT has the FFI, too.)
    for _, row in ipairs(tide._rows()) do
      local heading = row.name
      if row.path == "tide" or row.path == "Tensor" then
        heading = headings[row.name] and row.name or row.name:match "^(.*)_$"
      elseif row.path:find "^tide%." then
        heading = row.path:sub(6) .. "." .. row.name
      else
        heading = row.path .. ":" .. row.name
      end
      local elsewhere = row.name == "ffi" or row.path:find "^tide%.ffi"
      if row.name:sub(1, 1) ~= "_" and not elsewhere then assert.is_true(headings[heading], row.path .. "." .. row.name) end
    end
    assert.is_truthy(read("reference/sort.md"):find("See also [`sort`](sort.md#sort).", 1, true))
    assert.is_truthy(read("reference/streams.md"):find("| `s` | [`tide.cuda.Stream`](streams.md#cudastream) | ", 1, true))
    assert.is_truthy(read("reference/torch_names.md"):find("\n| `greater`, `greater_equal`, `less`, `less_equal`, `not_equal` | use gt, ge, lt, le, ne |\n", 1, true))
    assert.is_truthy(read("reference/elsewhere.md"):find("`autograd`.- | tide has no autograd: write"))
    assert.is_truthy(read("tide.1"):find(".SH OPTIONS", 1, true))
    assert.is_truthy(read("tide.1"):find(".B TIDE_KERNEL_CACHE=0", 1, true))
    os.execute("rm -r " .. folder)
  end)
end)
