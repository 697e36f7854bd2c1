-- Joins the ranks for the specs of tide.distributed. Under NCCL the device of the specs is this rank's own.
local tide = require "tide"
local D = require "spec.support.device"
local dist = tide.distributed

dist.init_process_group { timeout = tonumber(os.getenv "TIDE_RANKS_TIMEOUT") or 120, backend = os.getenv "TIDE_RANKS_BACKEND" }
if D.cuda and dist.get_backend() == "nccl" then D.dev = "cuda:" .. tide.cuda.current_device() end
return dist
