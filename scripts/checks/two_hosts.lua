-- Two hosts on one machine, for ranks.lua: network namespaces with a cable between them, and names and System V IPC of
-- their own, so that an MPI takes them for two. RFC 2544 keeps the addresses for tests.

local M = {}
local id = io.open "/proc/self/stat":read "n"
local hosts = { { name = "tide" .. id .. "a", cable = "t" .. id .. "a", address = "198.18.77.1" },
  { name = "tide" .. id .. "b", cable = "t" .. id .. "b", address = "198.18.77.2" } }
local agent

local function run(...) return os.execute((...):format(select(2, ...)) .. " >/dev/null 2>&1") end

-- Stands in for ssh.
local function write_agent(path)
  local file = assert(io.open(path, "w"))
  file:write("#!/bin/sh\nwhile case $1 in -*) true ;; *) false ;; esac; do shift; done\ncase $1 in\n")
  for _, h in ipairs(hosts) do file:write(h.address, " | ", h.name, ") host=", h.name, " ;;\n") end
  file:write('*) echo "no host $1" >&2; exit 255 ;;\nesac\nshift\nexec ip netns exec $host unshare --uts --ipc sh -c "hostname $host; $*"\n')
  file:close()
  run("chmod +x %s", path)
  agent = path
end

-- The kernel tells of a cable up to a second late, and libraries look once.
local function wait_for_cable()
  for _, h in ipairs(hosts) do
    run("for i in $(seq 50); do ip -n %s link show %s | grep -q 'state UP' && break; sleep 0.1; done", h.name, h.cable)
  end
end

-- False where this machine, or who runs this, may have none.
function M.up(folder)
  write_agent(folder .. "/agent")
  local a, b = hosts[1], hosts[2]
  if not run("ip netns add %s && ip netns add %s", a.name, b.name) then return false end
  local ok = run("ip link add %s netns %s type veth peer name %s netns %s", a.cable, a.name, b.cable, b.name)
  for _, h in ipairs(hosts) do
    ok = ok and run("ip -n %s addr add %s/24 dev %s && ip -n %s link set lo up && ip -n %s link set %s up", h.name, h.address, h.cable, h.name, h.name, h.cable)
  end
  -- 25 s until TCP gives up what is not acknowledged, and not 15 minutes: a launcher waits for that
  for _, h in ipairs(hosts) do ok = ok and run("ip netns exec %s sh -c 'echo 6 >/proc/sys/net/ipv4/tcp_retries2'", h.name) end
  for _, h in ipairs(hosts) do ok = ok and run("%s %s true", agent, h.name) end
  if ok then wait_for_cable() end
  return ok
end

-- Ends what runs on either. Launchers leave their agents on a host that they cannot reach.
function M.clear()
  for _, h in ipairs(hosts) do run("ip netns pids %s | xargs -r kill -9", h.name) end
end

function M.down()
  M.clear()
  for _, h in ipairs(hosts) do run("ip netns del %s", h.name) end
end

M.cut = ("ip link set %s down"):format(hosts[2].cable) -- a command for the second host
function M.mend()
  run("ip -n %s link set %s up", hosts[2].name, hosts[2].cable)
  wait_for_cable()
end

-- The launcher's command for n ranks, half of them, rounded down, on the first host.
function M.launcher(launcher, n)
  local list = ("%s:%d,%s:%d"):format(hosts[1].address, n // 2, hosts[2].address, n - n // 2)
  local network = hosts[1].address:gsub("%d+$", "0/24")
  if launcher:find "openmpi" then
    return ("%s %s %s --host %s --mca plm_rsh_agent %s --mca btl_tcp_if_include %s --mca oob_tcp_if_include %s "
      .. "--mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3"):format(
      agent, hosts[1].name, launcher, list, agent, network, network)
  end
  return ("%s %s %s -launcher ssh -launcher-exec %s -hosts %s -localhost %s"):format(agent, hosts[1].name, launcher, agent, list, hosts[1].address)
end

return M
