-- What bench/load.py does, done by wrk where it is installed: it leaves more of the core to the upstream and the database.
-- Sends the request in the file that REQUEST names, as it is, and prints one JSON object.

local file = assert(io.open(os.getenv("REQUEST"), "rb"))
local whole = file:read("*a")
file:close()

function request()
   return whole
end

function done(summary, latency, requests)
   local errors = summary.errors
   local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
   io.write(string.format(
      '{"per_second": %.1f, "p50_ms": %.2f, "p99_ms": %.2f, "statuses": {"200": %d%s}}\n',
      summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
      summary.requests - failed, failed > 0 and string.format(', "failed": %d', failed) or ""
   ))
end
