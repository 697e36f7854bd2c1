-- tide.await: a coroutine waits for a device and its host does not.

local M = ...
local start_wait, may_yield, note_wait = use("host/await.c", "start_wait", "may_yield", "note_wait")
local query, synchronize = public("Event", "query", "synchronize")
local dimensions, item, totable = public("Tensor", "dim", "item", "totable")

function M.await(what)
  local event, host = start_wait(what)
  if may_yield() then
    while not query(event) do
      note_wait()
      yield()
    end
  else
    synchronize(event)
  end
  if not host then return end
  if dimensions(host) == 0 then return item(host) end
  return totable(host)
end
