-- ci: --years 2 --quiet --device cpu --out ci-orbits.png
--
-- Fifty years of the solar system: eleven bodies from a table of measured states, each pulling on every other,
-- integrated in float64 tensors.  Prints the orbital periods it measures beside the published ones and how well
-- energy was kept, and draws the orbits.
--
--   tide solar_system.lua [--years 50] [--step 1] [--device cpu|cuda] [--data table.tsv] [--out orbits.png] [--quiet]
--     [--kernel | --operations]
--
-- What to look at as a newcomer: `accelerations` (broadcasting [1, n, 3] - [n, 1, 3], and operations that write
-- into tensors made beforehand), the main loop (nothing in it waits for the GPU), and `revolutions` (one `totable`
-- at the end instead of one item() a step).  Eleven bodies are little work for a GPU, and 200,000 forces of eight
-- operations each are many launches: there the same steps are `integrate`, one kernel for hundreds of them, unless
-- --operations is given; --kernel does so on the CPU.
--
-- The method is symplectic: SRKN11b of S. Blanes and P. C. Moan, "Practical symplectic partitioned Runge-Kutta and
-- Runge-Kutta-Nystroem methods", J. Comput. Appl. Math. 142 (2002), 313-330: order 6, eleven forces a step.
-- Newton's gravity of points alone: no relativity, no asteroids, no tides.
local tide = require "tide"
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "lib/?.lua;" .. package.path
local draw_orbits = require "orbit_picture"

local args = tide.cmdline("Fifty years of the solar system")
  :option("years", 50.0, "how long to integrate")
  :option("step", 1.0, "days a step")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("data", here .. "solar_system_data.tsv", "the table of bodies")
  :option("out", "orbits.png", "the picture to write")
  :flag("quiet", "no bar of progress")
  :flag("kernel", "hundreds of steps in one kernel: the default on a GPU")
  :flag("operations", "operations on tensors: the default on the CPU")
  :parse(arg)
if args.kernel and args.operations then error("kernel, operations: got both, expected one of them", 0) end
local real = { dtype = tide.float64, device = tide.device(args.device) }
if not (args.years > 0 and args.step > 0) then
  error(("years and step: got %s and %s, expected numbers above 0"):format(args.years, args.step), 0)
end
local step, steps = args.step, math.ceil(args.years * 365.25 / args.step)

-- ---------------------------------------------------------------- the table of bodies

local function read_bodies(path)
  local bodies, columns, number = {}, nil, 0
  for line in io.lines(path) do
    number = number + 1
    local fields = {}
    for field in line:gmatch("[^\t]+") do
      fields[#fields + 1] = field
    end
    if line:sub(1, 1) ~= "#" and not columns then
      columns = fields
    elseif line:sub(1, 1) ~= "#" then
      local body = {}
      for i, name in ipairs(columns) do
        body[name] = tonumber(fields[i]) or fields[i]
      end
      for _, name in ipairs { "gm", "x", "y", "z", "vx", "vy", "vz" } do
        if type(body[name]) ~= "number" then
          error(("%s:%d: column %s: got %s, expected a number"):format(path, number, name, body[name]), 0)
        end
      end
      bodies[#bodies + 1] = body
      bodies[body.name] = #bodies
    end
  end
  return bodies
end

local bodies = read_bodies(args.data)
local n = #bodies
local gm_list, x_list, v_list = {}, {}, {}
for i, b in ipairs(bodies) do
  gm_list[i], x_list[i], v_list[i] = b.gm, { b.x, b.y, b.z }, { b.vx, b.vy, b.vz }
end
local gm = tide.tensor(gm_list, real)
local state = tide.tensor({ x_list, v_list }, real) -- [2, n, 3]: positions and velocities
state:sub_((state * gm:view(1, n, 1)):sum(2, { keepdim = true }) / gm:sum()) -- the barycentre at rest at the origin
local x, v = state[1], state[2] -- views: changing them changes `state`

-- ---------------------------------------------------------------- forces and energy

local x_here, x_there = x:view(n, 1, 3), x:view(1, n, 3)
local gm_there = gm:view(1, n, 1)
local itself = tide.eye(n, real):view(n, n, 1) -- keeps the distance of a body to itself away from zero
local apart, squares, nearness = tide.empty(n, n, 3, real), tide.empty(n, n, 3, real), tide.empty(n, n, 1, real)
local a = tide.empty(n, 3, real)
-- Options are made once: the loop below makes no garbage.
local into_apart, into_squares, into_a = { out = apart }, { out = squares }, { out = a }
local into_nearness = { out = nearness, keepdim = true }

-- a_i = sum over j of gm_j (x_j - x_i) / |x_j - x_i|^3
local function accelerations()
  tide.sub(x_there, x_here, into_apart)
  tide.mul(apart, apart, into_squares)
  tide.sum(squares, 3, into_nearness)
  nearness:add_(itself):pow_(-1.5):mul_(gm_there)
  apart:mul_(nearness)
  tide.sum(apart, 2, into_a)
end

local function energy()
  local kinetic = 0.5 * (gm * (v * v):sum(2)):sum()
  local inverse = (x_there - x_here):square():sum(3):add_(itself:view(n, n)):rsqrt() - itself:view(n, n)
  return kinetic - 0.5 * (gm:view(n, 1) * gm * inverse):sum()
end

-- ---------------------------------------------------------------- fifty years

local KICK = { 0.0414649985182624, 0.198128671918067, -0.0400061921041533, 0.0752539843015807,
  -0.0115113874206879, 0.2366699247869311 }
local DRIFT = { 0.123229775946271, 0.290553797799558, -0.127049212625417, -0.246331761062075,
  0.357208872795928, 0.20477705429147 }
local kick, drift = {}, {}
for i = 1, 12 do -- the method reads the same forwards and backwards
  kick[i] = step * KICK[i <= 6 and i or 13 - i]
end
for i = 1, 11 do
  drift[i] = step * DRIFT[i <= 6 and i or 12 - i]
end

local track = tide.empty(steps + 1, 2, n, 3, real) -- the state after every step
local energy_start, worst_drift, timer = energy():item(), 0, tide.Timer()
track[1] = state

-- Now and then: item() waits for the device.
local function look()
  worst_drift = math.max(worst_drift, math.abs(energy():item() / energy_start - 1))
end
local function progress(n) return tide.progress(n, "integrating", { show = not args.quiet and nil }) end

-- Steps first to last. Thread i, j of one block pulls body i towards body j: where the bodies are, and how they are
-- pulled, is in memory that the threads share.
local function integrate(i, j, x, v, gm, track, first, last)
  local there, pulled = tide.shared(tide.float64, 16, 3), tide.shared(tide.float64, 256, 3)
  local here, speed, a = tide.vec3(x[i]), tide.vec3(v[i]), tide.vec3(0.0)
  local mass, row = gm[j], 16 * (i - 1)
  for s = first, last do
    for k = 1, 12 do
      if k > 1 then
        here = here + speed * drift[k - 1]
      end
      if k > 1 or s == first then -- else they are where the last force was computed
        if j == 1 then
          there[i] = here
        end
        tide.barrier()
        local pull = tide.vec3(0.0)
        if i ~= j then
          local apart = tide.vec3(there[j]) - here
          local r2 = apart:dot(apart)
          pull = apart * (mass / (r2 * math.sqrt(r2)))
        end
        pulled[row + j] = pull
        tide.barrier()
        a = tide.vec3(0.0)
        for other = 1, #gm do
          a = a + tide.vec3(pulled[row + other])
        end
      end
      speed = speed + a * kick[k]
    end
    if j == 1 then
      track[s + 1][1][i], track[s + 1][2][i] = here, speed
    end
  end
  if j == 1 then
    x[i], v[i] = here, speed
  end
end

local function by_kernel()
  local k, every = tide.kernel(integrate, { block = { n, n } }), steps // 100 + 1
  for part in progress((steps + every - 1) // every) do
    k({ n, n }, x, v, gm, track, (part - 1) * every + 1, math.min(part * every, steps))
    look()
  end
end

local kicks, drifts = {}, {}
for i = 1, 12 do
  kicks[i] = { alpha = kick[i] }
end
for i = 1, 11 do
  drifts[i] = { alpha = drift[i] }
end

local function by_operations(numbers)
  accelerations()
  for s in numbers do
    v:add_(a, kicks[1])
    for i = 1, 11 do
      x:add_(v, drifts[i])
      accelerations()
      v:add_(a, kicks[i + 1])
    end
    track[s + 1] = state
    if s % (steps // 100 + 1) == 0 or s == steps then
      look()
    end
  end
end

local by_hand -- microseconds a force of operations on tensors, where the kernel takes their place
if args.kernel or real.device.type == "cuda" and not args.operations then
  local start, few = state:clone(), math.min(steps, 30)
  for _ = 1, 2 do -- the second time counts
    timer = tide.Timer()
    by_operations(tide.progress(few, { show = false }))
    by_hand = 1e6 * timer:time().real / (11 * few)
    state:copy_(start)
  end
  worst_drift, timer = 0, tide.Timer()
  by_kernel()
else
  by_operations(progress(steps))
end
local seconds = timer:time().real

-- ---------------------------------------------------------------- periods

-- On the ecliptic of J2000: turned about the x axis by the obliquity, 84381.448 arcseconds.
local tilt = math.rad(84381.448 / 3600)
local to_ecliptic = tide.tensor({ { 1, 0, 0 }, { 0, math.cos(tilt), -math.sin(tilt) },
  { 0, math.sin(tilt), math.cos(tilt) } }, real)
track = track:matmul(to_ecliptic)
local positions, velocities = track:select(2, 1), track:select(2, 2) -- [steps + 1, n, 3]
local moon, earth = bodies.Moon, bodies.Earth
local around = positions - positions:narrow(2, 1, 1) -- seen from the Sun, the Moon from the Earth
around:select(2, moon):copy_(positions:select(2, moon) - positions:select(2, earth))
local longitude = tide.atan2(around:select(3, 2), around:select(3, 1)):t():totable()

-- Whole revolutions: the longitude is followed from step to step until it comes back to where it began; the time
-- of the last return is interpolated.  Returns how many there were and the days of one.
local function revolutions(angles)
  local swept, count, last = 0, 0, nil
  for s = 2, #angles do
    local turn = (angles[s] - angles[s - 1] + math.pi) % (2 * math.pi) - math.pi -- across the jump at half a turn
    if swept + turn >= 2 * math.pi * (count + 1) then
      count = count + 1
      last = (s - 2 + (2 * math.pi * count - swept) / turn) * step
    end
    swept = swept + turn
  end
  return count, last and last / count
end

-- A body that has not come round yet: the period of the Kepler ellipse that it is on, from its speed and distance
-- (vis viva), averaged over the run.  Taken about the barycentre of everything further in, for the Sun is swung
-- about by Jupiter, and an outer planet's ellipse about the Sun would swing with it.
local function kepler_period(i)
  local first = bodies[bodies[i].around]
  local inner = gm:narrow(1, first, i - first)
  local mass = inner:sum()
  local weights = (inner / mass):view(1, -1, 1)
  local r = positions:select(2, i) - (positions:narrow(2, first, i - first) * weights):sum(2)
  local w = velocities:select(2, i) - (velocities:narrow(2, first, i - first) * weights):sum(2)
  local mu = mass + gm[i]
  local axis = 1 / (2 / r:norm(2, 2) - w:square():sum(2) / mu)
  return (2 * math.pi * (axis ^ 3 / mu):sqrt()):mean():item()
end

print(("%d bodies, %.4g years in %d steps of %g days on %s: %.1f s, %.1f us a force"):format(n, steps * step / 365.25,
  steps, step, args.device, seconds, 1e6 * seconds / (11 * steps)))
if by_hand then
  print(("in kernels of hundreds of steps; by operations on tensors (--operations) a force takes %.1f us"):format(by_hand))
end
print(("%-10s %14s %14s %10s   %s"):format("body", "measured, d", "published, d", "deviation", "measured by"))
local failures = {}
for i = 2, n do
  local count, period = revolutions(longitude[i])
  local method = ("%d revolution%s about the %s"):format(count, count == 1 and "" or "s", bodies[i].around)
  if count == 0 then
    period, method = kepler_period(i), "mean Kepler ellipse"
  end
  local deviation = period / bodies[i].period - 1
  print(("%-10s %14.3f %14.3f %+9.4f%%   %s"):format(bodies[i].name, period, bodies[i].period, 100 * deviation, method))
  bodies[i].measured = period
  if math.abs(deviation) > 0.005 then
    failures[#failures + 1] = bodies[i].name .. "'s period is off by more than 0.5%"
  end
end
print(("relative energy drift, at most: %.2e"):format(worst_drift))
if not (worst_drift < 1e-6) then
  failures[#failures + 1] = "energy drifted by more than 1e-6"
end

-- ---------------------------------------------------------------- the picture

local picture = draw_orbits {
  bodies = bodies, steps = steps, step = step,
  -- What is drawn: planets as seen from the Sun, the Moon from the Earth, and the Sun itself from the barycentre.
  path = function(i)
    return (i == 1 and positions or around):select(2, i):totable()
  end,
  device = args.device,
  title = ("%d bodies, %.4g years from 1969 June 28"):format(n, steps * step / 365.25),
  note = ("steps of %g d, energy kept to %.0e"):format(step, worst_drift),
}
tide.save_png(args.out, picture:cpu())
print("wrote " .. args.out)

if #failures > 0 then
  io.stderr:write("solar_system: ", table.concat(failures, "; "), "\n")
  os.exit(1, true)
end
