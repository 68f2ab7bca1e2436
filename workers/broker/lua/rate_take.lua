-- Counts one request of a key, if its bucket has room. KEYS[1]: when the bucket is full again, in seconds since the epoch.
-- ARGV: seconds in which one request's place comes back; those in which a whole bucket's places do.
-- Returns the seconds until the bucket is full with this request in it: more than the second argument, and it was refused.
local told = redis.call('TIME')
local now = tonumber(told[1]) + tonumber(told[2]) / 1000000
local full_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + tonumber(ARGV[1])
local full_in = full_at - now
if full_in <= tonumber(ARGV[2]) + 0.000001 then
  redis.call('SET', KEYS[1], string.format('%.6f', full_at), 'PX', math.ceil(full_in * 1000) + 1)
end
return string.format('%.6f', full_in)
