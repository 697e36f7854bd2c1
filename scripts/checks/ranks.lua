-- Runs specs on several ranks by each MPI that is installed, and lets single ranks fail in all the ways that users meet.
-- usage, in the source tree: tide scripts/checks/ranks.lua specs TIDE N...     one launch of spec/distributed/*_spec.lua each
--                            tide scripts/checks/ranks.lua programs TIDE N COUNT  random ones of spec/stress/ranks*.lua
--                            tide scripts/checks/ranks.lua examples TIDE N...    the same results on all numbers of ranks
--                            tide scripts/checks/ranks.lua saves TIDE COUNT       ranks killed while they save
--                            tide scripts/checks/ranks.lua faults TIDE [WORD]     those whose name has the word
--                            tide scripts/checks/ranks.lua two TIDE [WORD]        specs, and faults, between two hosts
--                            tide scripts/checks/ranks.lua hosts PROGRAM MODULE   hosts that initialise MPI themselves
-- Exits with 77 where there is no launcher, or no second host. Its limits are for hangs.

local what, tide_program = arg[1], arg[2]

-- Root in a container, more ranks than processors, a kernel that lets no process read another's memory: Open MPI refuses
-- each by itself.
local environment = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
  .. "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_orte_abort_timeout=10"
-- For what fails on devices.
local simulated = "env TIDE_SIM_DEVICES=2 TIDE_SIM_CLOCK=virtual "

local function read(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

-- TIDE_RANKS_LAUNCHER: only this one, such as "srun --mpi=pmix".
local launchers = { os.getenv "TIDE_RANKS_LAUNCHER" }
for _, name in ipairs(launchers[1] and {} or { "mpirun.openmpi", "mpirun.mpich" }) do
  local path = read("command -v " .. name):gsub("%s+$", "")
  if path ~= "" then launchers[#launchers + 1] = path end
end
if #launchers == 0 then
  print "ranks: left out, there is neither mpirun.openmpi nor mpirun.mpich: scripts/setup --tests installs both"
  os.exit(77)
end

local folder = read "mktemp -d":gsub("%s+$", "")
local count = 0
local two = what == "two" and dofile "scripts/checks/two_hosts.lua"

-- Returns what it printed, its exit code, and whether it came to an end.
local function run(launcher, n, command, seconds)
  count = count + 1
  local out, code = folder .. "/out" .. count, nil
  local line = ("%s timeout -k 5 %d %s %s %s >%s 2>&1 </dev/null; echo $?"):format(environment, seconds,
    n and two and two.launcher(launcher, n) or launcher, n and "-n " .. n or "", command, out)
  code = tonumber(read(line))
  local file = assert(io.open(out))
  local text = file:read "a"
  file:close()
  return text, code, code ~= 124 and code ~= 137 + 128
end

local failures = 0
local function complain(case, text, ...)
  failures = failures + 1
  print(("ranks: %s: %s"):format(case, (...):format(select(2, ...))))
  print((text:gsub("\n", "\n    "):gsub("^", "    ")))
end

-- The runner as the launcher.
local function runner()
  for _, launcher in ipairs(launchers[1]:find "srun" and {} or launchers) do
    local script = folder .. "/print.lua"
    local file = assert(io.open(script, "w"))
    file:write "tide.distributed.init_process_group() tide.distributed.print { all = true, 'of', tide.distributed.get_world_size(), (...) }"
    file:close()
    local text, code = run("env TIDE_MPIRUN=" .. launcher, nil, tide_program .. " --sim 1 --ranks 3 --verbose " .. script .. " word", 300)
    local fits = text:find "%[0%] of\t3\tword\n%[1%] of\t3\tword\n%[2%] of\t3\tword\n" and text:find(" -n 3 ", 1, true)
    if code ~= 0 or not fits then complain(launcher .. " by --ranks", text, "exit code %s, or other lines", code) end
  end
end

local function specs(counts)
  for _, n in ipairs(counts) do
    for _, launcher in ipairs(launchers) do
      local text, code = run(launcher, n, "env TIDE_RANKS_FILE=" .. folder .. "/field " .. tide_program .. " scripts/checks/busted.lua -o plainTerminal spec/distributed/distributed_spec.lua spec/distributed/distributed_field_spec.lua spec/distributed/distributed_file_spec.lua spec/distributed/distributed_group_spec.lua", 800)
      local case, passed = ("%s with %d ranks"):format(launcher, n), 0
      for _ in text:gmatch "%d+ successes / 0 failures / 0 errors" do passed = passed + 1 end
      if code ~= 0 or passed ~= n then complain(case, text, "exit code %s, %d of %d ranks passed", code, passed, n) end
    end
  end
end

local function hosts()
  for _, launcher in ipairs(launchers) do
    local library = launcher:find "openmpi" and "libmpi.so.40" or "libmpich.so.12"
    for _, how in ipairs { "leave", "stay" } do
      local text, code = run(launcher, 2, ("%s %s %s %s"):format(tide_program, arg[3], library, how), 60)
      if code ~= 0 or text ~= "" then complain(launcher .. ": " .. how, text, "exit code %s", code) end
    end
  end
end

local function programs()
  local n, programs_count = tonumber(arg[3]), tonumber(arg[4])
  for i, launcher in ipairs(launchers) do
    for _, script in ipairs { "ranks", "ranks_halo" } do
      local text, code = run(launcher, n, ("%s spec/stress/%s.lua %d %d"):format(tide_program, script, programs_count, i * 100000), 800)
      local _, lines = text:gsub("%] " .. programs_count .. " programs, %d+ results", "")
      if code ~= 0 or lines ~= n then complain(launcher .. ": " .. script, text, "exit code %s, %d of %d ranks came to the end", code, lines, n) end
    end
  end
end

-- Examples come to the same bits on all numbers of ranks; heat3d goes on from the file of the launch before.
local function examples()
  local file, expected = folder .. "/heat", {}
  local heat = "heat3d.lua --size 20 --quiet --out " .. folder .. "/heat.png "
  local bodies = "nbody_ring.lua --bodies 300 --steps 4"
  local function try(launcher, n, options, key)
    local text, code = run(launcher or "env", n and tonumber(n), tide_program .. " scripts/examples/" .. options .. " --device cpu", 100)
    local bits = text:match "bits (%x+)"
    if not launcher and key then expected[key] = bits end
    if code ~= 0 or not bits or key and bits ~= expected[key] then
      complain(("%s with %s ranks: %s"):format(launcher, n, options), text, "exit code %s, bits %s, expected %s", code, bits, expected[key])
    end
  end
  try(nil, nil, heat .. "--steps 20", "heat")
  try(nil, nil, heat .. "--steps 10 --save " .. file)
  try(nil, nil, bodies, "bodies")
  for i = 3, #arg do
    for _, launcher in ipairs(launchers) do
      try(launcher, arg[i], heat .. "--steps 20 --resume " .. file, "heat")
      try(launcher, arg[i], heat .. "--steps 10 --save " .. file)
      try(launcher, arg[i], bodies, "bodies")
    end
  end
end

-- Ranks are killed at random moments of a save: the old or the new file is there.
local function saves()
  local file, moments = folder .. "/saved", tonumber(arg[3])
  local step = 0
  for i = 1, moments do
    local launcher = launchers[i % #launchers + 1]
    local seconds = ("%.3f"):format(0.02 + math.random() * 0.8)
    local text, code = run(launcher, 3, ("%s spec/stress/ranks_save.lua %s %s"):format(tide_program, file, seconds), 100)
    if code == 0 or code == 124 then complain(launcher .. ": killed after " .. seconds .. " s", text, "exit code %s", code) end
    local exists = io.open(file)
    if exists then
      exists:close()
      text, code = run("env", nil, ("%s spec/stress/ranks_save.lua %s"):format(tide_program, file), 100)
      if code ~= 0 or not text:find "^step %d+" then complain(launcher .. ": killed after " .. seconds .. " s", text, "exit code %s of the load", code) end
      step = step + (tonumber(text:match "^step (%d+)") or 0)
    end
  end
  if step == 0 then complain("saves", "", "no launch came to its first save") end
  print("ranks: saves: the files that were left add up to step " .. step)
end

-- What rank 1 of 3 does, a pattern of the message that stands there once, and what to expect of the exit code. `head` runs
-- before the processes are joined.
local cases = {
  { "an error", "if rank == 1 then error 'boom' end dist.barrier()", "rank 1: [^\n]*case%.lua:%d+: boom" },
  { "an error before init", "dist.barrier()", "case%.lua:%d+: boom", head = "if rank == 1 then error 'boom' end" },
  { "the same error on all", "local x = nil + 1", "case%.lua:%d+: attempt to perform arithmetic", any = true },
  { "os.exit(0)", "if rank == 1 then os.exit(0) end dist.barrier()", "ranks do not agree.-rank 1: leaves %(case%.lua:%d+%)" },
  { "its end", "if rank ~= 1 then dist.barrier() end", "ranks do not agree.-rank 1: has ended" },
  { "os.exit(3)", "if rank == 1 then os.exit(3) end dist.barrier()", "case%.lua:%d+: rank 1 has left with exit code 3", code = 3 },
  { "kill -9", "if rank == 1 then os.execute('kill -9 ' .. io.open '/proc/self/stat':read 'n') end dist.barrier()" },
  { "another size", "dist.all_reduce(tide.ones(rank == 1 and 20 or 10))", "ranks 0, 2: all_reduce.- of 10 float32.-rank 1: all_reduce.- of 20 float32" },
  { "another dtype", "dist.all_reduce(tide.ones(9):to(rank == 1 and tide.int32 or tide.float64))", "ranks 0, 2:.-float64.-rank 1:.-int32" },
  { "another operation", "if rank == 1 then dist.broadcast(tide.ones(3), 0) else dist.all_reduce(tide.ones(3)) end", "rank 1: broadcast of 3" },
  { "another op", "dist.all_reduce(tide.ones(3), { op = rank == 1 and 'max' or 'sum' })", "rank 1: all_reduce %(max%)" },
  { "another root", "dist.broadcast(tide.ones(3), rank == 1 and 1 or 0)", "rank 1: broadcast.-root 1" },
  { "another order", "if rank == 1 then dist.barrier() dist.all_reduce(tide.ones(1)) else dist.all_reduce(tide.ones(1)) dist.barrier() end",
    "ranks 0, 2: all_reduce.-rank 1: barrier" },
  { "compared before", "dist.set_debug_level 'detail' dist.all_reduce(tide.ones(rank == 1 and 20 or 10))", "of 10 float32.-rank 1.-of 20" },
  { "Ctrl-C in a wait", "if rank == 1 then local pid = io.open '/proc/self/stat':read 'n' os.execute('(sleep 1; kill -INT ' .. pid .. ') &') dist.barrier() else "
    .. "dist.recv(tide.ones(1), 1) end", "case%.lua:%d+: interrupted", interrupts = true },
  { "SIGTERM in a wait, caught once", "if rank == 1 then local pid = io.open '/proc/self/stat':read 'n' os.execute('(sleep 1; kill -TERM ' .. pid .. ') &') "
    .. "local ok = pcall(dist.barrier) io.stderr:write('saved ', tostring(ok), '\\n') else dist.recv(tide.ones(1), 1) end", "saved false" },
  { "another number of fields", "local g = dist.cart { dims = { 0 }, periodic = true } local u, v = g:field { 40 }, g:field { 40 } "
    .. "g:halo_exchange(u) g:halo_exchange { u, v } g:halo_exchange(rank == 1 and { u, v } or { u })", "case%.lua:%d+: halo_exchange: got a message of %d+ bytes %(float32[^)]*%) from rank %d, expected the %d+ bytes %(float32", any = true },
  { "a message that nobody receives", "if rank == 0 then dist.send(tide.ones(2), 1, { tag = 7 }) end", code = 0,
    "tide: rank 1: a message from rank 0 with tag 7 was not received" },
  { "another cut of a field", "local g = dist.cart { dims = { 0 } } g:halo_exchange(g:field { rank == 1 and 41 or 40 })",
    "case%.lua:%d+: halo_exchange: fields: got {40} with a halo of {1} on rank 0 and {41} with a halo of {1} on rank 1, expected the same", any = true },
  { "no first exchange", "local g = dist.cart { dims = { 0 } } local u = g:field { 40 } if rank ~= 1 then g:halo_exchange(u) end dist.barrier()",
    "halo_exchange: ranks do not agree on operation %d+ of the group: ranks 0, 2: all_gather_object.-rank 1: barrier", any = true },
  { "no exchange", "local g = dist.cart { dims = { 0 }, periodic = true } local u = g:field { 40 } g:halo_exchange(u) "
    .. "if rank ~= 1 then g:halo_exchange(u) end dist.barrier()",
    "case%.lua:%d+: gave up after %d+ s in halo_exchange %(case%.lua:%d+%).-rank 1 is in barrier", limits = true, any = true },
  { "late", "if rank == 1 then local t = os.time() while os.time() - t < 600 do end end dist.barrier()",
    "case%.lua:%d+: gave up after %d+ s in barrier %(case%.lua:%d+%), operation %d+ of the group: rank 1 has not come", limits = true },
  { "another size, and others have begun more", "if rank == 1 then local t = os.clock() while os.clock() - t < 0.3 do end end local w, more = "
    .. "dist.all_reduce(tide.ones(rank == 1 and 20 or 10), { async_op = true }), {} for i = 1, rank == 1 and 0 or 5 do "
    .. "more[i] = dist.all_reduce(tide.ones(3), { async_op = true }) end w:wait()",
    "case%.lua:%d+: .-ranks 0, 2: all_reduce.- of 10 float32.-rank 1: all_reduce.- of 20 float32" },
  { "too many sums at once", "local w, x = {}, tide.ones(30000) for i = 1, 601 do w[i] = dist.all_reduce(x, { async_op = true }) end w[601]:wait()",
    "case%.lua:%d+: wait: 600 reductions were begun since one that is not done, expected a wait before", any = true },
  { "another size on a device", "local x = tide.ones(rank == 1 and 20 or 10, { device = 'cuda' }) dist.all_reduce(x) x:add_(1) x:sum():item()",
    "case%.lua:%d+: .-ranks 0, 2: all_reduce.- of 10 float32.-rank 1: all_reduce.- of 20 float32" },
  { "another size on a device, without a wait", "dist.all_reduce(tide.ones(rank == 1 and 20 or 10, { device = 'cuda' }))",
    "ranks 0, 2: all_reduce.- of 10 float32.-rank 1: all_reduce.- of 20 float32" },
  { "late on a device", "if rank == 1 then local t = os.time() while os.time() - t < 600 do end end local x = tide.ones(3, { device = 'cuda' }) "
    .. "dist.all_reduce(x) x:sum():item()", "case%.lua:%d+: .-gave up after %d+ s in all_reduce %(case%.lua:%d+%), operation %d+ of the group: rank 1 has not come",
    limits = true },
  { "kill -9 while a device waits", "local x = tide.ones(3, { device = 'cuda' }) if rank == 1 then os.execute('kill -9 ' .. io.open '/proc/self/stat':read 'n') "
    .. "end dist.all_reduce(x) x:sum():item()" },
  { "somewhere else", "if rank == 1 then dist.recv(tide.ones(1), 0) end dist.barrier()",
    "case%.lua:%d+: gave up after %d+ s in barrier.-rank 1 is in recv %(case%.lua:%d+%)", limits = true, any = true },
}

-- The cable between ranks 0 and 1 is cut, once rank 0 has all that was sent before. What rank 1 says cannot be heard.
local cut = two and ("if rank == 0 then dist.send(tide.ones(1), 1, { tag = 9 }) end if rank == 1 then dist.recv(tide.ones(1), 0, { tag = 9 }) "
  .. "assert(os.execute '%s') end "):format(two.cut)
local cut_cases = two and {
  { "link down", cut .. "while true do dist.barrier() end", "case%.lua:%d+: gave up after %d+ s in barrier %(case%.lua:%d+%).-ranks 1, 2 have not come", limits = true },
  { "link down while a large sum runs", "local x = tide.ones(1 << 22) " .. cut .. "while true do dist.all_reduce(x) end",
    "case%.lua:%d+: gave up after %d+ s in all_reduce %(case%.lua:%d+%).-ranks 1, 2 have not come", limits = true },
  { "link down while a device waits", "local x = tide.ones(3, { device = 'cuda' }) " .. cut .. "while true do dist.all_reduce(x) x:mul_(0.5) x:sum():item() end",
    "case%.lua:%d+: .-gave up after %d+ s in all_reduce %(case%.lua:%d+%).-ranks 1, 2 have not come", limits = true },
  { "link down behind the end of two", cut .. "if rank > 0 then return end dist.recv(tide.ones(1), 1)",
    "case%.lua:%d+: gave up after %d+ s in recv %(case%.lua:%d+%)", limits = true },
}

local function write_case(case)
  local path = folder .. "/case.lua"
  local file = assert(io.open(path, "w"))
  file:write("local rank = tonumber(os.getenv 'OMPI_COMM_WORLD_RANK' or os.getenv 'PMI_RANK' or os.getenv 'SLURM_PROCID')\n", case.head or "", "\n",
    "local dist = tide.distributed\ndist.init_process_group", case.limits and "{ timeout = 4, notice = 1 }" or "()",
    "\ndist.barrier()\n", case[2], "\n")
  file:close()
  return path
end

-- Launchers that leave variables and no MPI: never a silent group of one, but where the script asks for it.
local function variables()
  local torchrun = "RANK=%d WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
  local alone = folder .. "/alone.lua"
  local file = assert(io.open(alone, "w"))
  file:write "local d = tide.distributed d.init_process_group { backend = 'alone' } print('alone', d.get_world_size())"
  file:close()
  local case = write_case { 0, "print 'joined'" }
  local srun = "SLURM_JOBID=5 SLURM_STEPID=0 SLURM_NODELIST=a SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0"
  for _, try in ipairs {
    { torchrun:format(0), case, 1, "case%.lua:%d+: init_process_group: RANK, WORLD_SIZE=2 and MASTER_ADDR are set .-mpirun %-n 2 .-tide %-%-ranks 2" },
    { torchrun:format(1), alone, 0, "alone\t1" },
    { "WORLD_SIZE=1 RANK=0 MASTER_ADDR=127.0.0.1", case, 0, "joined" },
    { "WORLD_SIZE=2", case, 0, "joined" },
    { "TIDE_MPI_LIBRARY=libmpich.so.12 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", case, 1, "started 2 processes %(SLURM_STEP_NUM_TASKS%).-srun %-%-mpi=pmix" },
    -- Open MPI would end these itself, with "The application appears to have been direct launched".
    { srun, case, 1, "case%.lua:%d+: init_process_group: .-SLURM_STEP_NUM_TASKS=2.-without PMI.-srun %-%-mpi=pmix" },
    { srun, alone, 0, "^alone\t1" },
    { "FLUX_JOB_SIZE=2 FLUX_TASK_RANK=0", case, 1, "started 2 processes %(FLUX_JOB_SIZE%)" },
    { "PMIX_RANK=1", case, 1, "started 2 processes %(PMIX_RANK%)" },
    { "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 TIDE_MPI_LIBRARY=libmpich.so.12", case, 1, "they do not belong together" },
    { "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0", alone, 0, "alone\t1" },
  } do
    local text, code = run("env " .. try[1], nil, tide_program .. " " .. try[2], 60)
    if (code == 0) ~= (try[3] == 0) or not text:find(try[4]) then complain(try[1], text, "exit code %s", code) end
  end
end

local function choose(from)
  local chosen = {}
  for _, case in ipairs(from) do
    if case[1]:find(arg[3] or "", 1, true) then chosen[#chosen + 1] = case end
  end
  return chosen
end

local function left() return (read("pgrep -f '" .. folder .. "/case[.]lua'"):gsub("%s+$", "")) end

-- A process that is left after `patience` seconds is a failure.
local function try(launcher, case, patience)
  local text, code = run(launcher, 3, simulated .. tide_program .. " " .. write_case(case), 300)
  local name = launcher .. ": " .. case[1]
  if not code or code == 124 or code ~= (case.code or code) or (code == 0 and not case.code) then
    complain(name, text, "exit code %s, expected %s", code, case.code or "one that is not 0")
  end
  local seen = 0
  if case[3] then for _ in text:gmatch(case[3]) do seen = seen + 1 end end
  if case[3] and (seen < 1 or (seen > 1 and not case.any)) then complain(name, text, "the message stands there %d times, expected once", seen) end
  if not case.interrupts and text:find("interrupted", 1, true) then complain(name, text, "a rank tells that it was ended") end
  for _ = 1, patience do -- launchers give processes a moment
    if left() == "" then break end
    os.execute "sleep 1"
  end
  if left() ~= "" then complain(name, text, "processes are left: %s", left()) end
end

local function faults()
  if not arg[3] or ("variables"):find(arg[3], 1, true) then variables() end
  local chosen = choose(cases)
  for _, launcher in ipairs(launchers) do
    for _, case in ipairs(chosen) do try(launcher, case, 3) end
    -- A library that does not belong to the launcher.
    local other = launcher:find "openmpi" and "libmpich.so.12" or "libmpi.so.40"
    if #launchers == 2 and not arg[3] then
      local text, code = run(launcher, 2, "env TIDE_MPI_LIBRARY=" .. other .. " " .. tide_program .. " " .. write_case { 0, "" }, 300)
      if code == 0 or not text:find "the launcher started 2 processes" then complain(launcher .. ": " .. other, text, "exit code %s", code) end
    end
  end
end

local function on_two_hosts()
  if not two.up(folder) then
    two.down()
    print "ranks: left out, no second host: ip netns add needs root, and iproute2"
    os.exit(77)
  end
  local ok, problem = pcall(function()
    specs { 4 }
    for _, launcher in ipairs(launchers) do
      for _, case in ipairs(choose(cases)) do try(launcher, case, 3) end
      for _, case in ipairs(choose(cut_cases)) do
        try(launcher, case, 10) -- the timeout, for ranks that nothing reaches
        two.clear()
        two.mend()
      end
    end
  end)
  two.down()
  assert(ok, problem)
end

if what == "specs" then
  runner()
  local counts = {}
  for i = 3, #arg do counts[#counts + 1] = tonumber(arg[i]) end
  specs(counts)
elseif what == "two" then on_two_hosts() elseif what == "programs" then programs() elseif what == "saves" then saves() elseif what == "examples" then examples() elseif what == "hosts" then hosts() else faults() end
os.execute("rm -rf " .. folder .. " /dev/shm/tide-nccl-*") -- also what a killed double of NCCL has left
print(("ranks: %s: %d launches, %d failures"):format(what, count, failures))
os.exit(failures == 0 and 0 or 1)
