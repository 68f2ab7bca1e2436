-- The hosts of the days KEYS with the most requests, ARGV[1] at most, each with its figures of every day.
local requests = {}
for _, day in ipairs(KEYS) do
  local found = redis.call('ZRANGE', day, 0, -1, 'WITHSCORES')
  for at = 1, #found, 2 do requests[found[at]] = (requests[found[at]] or 0) + tonumber(found[at + 1]) end
end
local hosts = {}
for host in pairs(requests) do hosts[#hosts + 1] = host end
table.sort(hosts, function(one, other)
  if requests[one] == requests[other] then return one < other end
  return requests[one] > requests[other]
end)
local rows = {}
for at = 1, math.min(#hosts, tonumber(ARGV[1])) do
  local figures = {}
  for _, day in ipairs(KEYS) do figures[#figures + 1] = redis.call('HGETALL', day .. ':' .. hosts[at]) end
  rows[at] = {hosts[at], figures}
end
return rows
