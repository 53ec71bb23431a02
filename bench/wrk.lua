-- The same as bench/load.py, for wrk, which takes less CPU time from the upstream and the database. Sends the requests in the
-- file REQUEST, separated by NUL, in turn, and prints one JSON object.

local file = assert(io.open(os.getenv("REQUEST"), "rb"))
local requests, turn = {}, 0
for each in file:read("*a"):gmatch("%Z+") do
   requests[#requests + 1] = each
end
file:close()

function request()
   turn = turn % #requests + 1
   return requests[turn]
end

function done(summary, latency)
   local errors = summary.errors
   local answered = {{"200", summary.requests - errors.status}, {"other", errors.status}, {"none", errors.connect + errors.read}}
   local statuses = {}
   for _, each in ipairs(answered) do
      if each[2] > 0 then
         statuses[#statuses + 1] = string.format('"%s": %d', each[1], each[2])
      end
   end
   io.write(string.format(
      '{"per_second": %.1f, "p50_ms": %.2f, "p95_ms": %.2f, "p99_ms": %.2f, "slowest_ms": %.2f, "statuses": {%s}}\n',
      summary.requests / summary.duration * 1e6,
      latency:percentile(50) / 1000, latency:percentile(95) / 1000, latency:percentile(99) / 1000, latency.max / 1000,
      table.concat(statuses, ", ")
   ))
end
