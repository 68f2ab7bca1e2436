-- A day is a sorted set of its hosts by requests; each host's figures are a hash beside it, at `day:host`.
local day, host = KEYS[1], ARGV[1]
if not redis.call('ZSCORE', day, host) and redis.call('ZCARD', day) >= tonumber(ARGV[2]) then host = ARGV[3] end
redis.call('ZINCRBY', day, ARGV[5], host)
redis.call('EXPIRE', day, ARGV[4])
local figures = day .. ':' .. host
if ARGV[6] ~= '' then redis.call('HSET', figures, 'interval_seconds', ARGV[6]) end
for at = 7, #ARGV, 2 do redis.call('HINCRBY', figures, ARGV[at], ARGV[at + 1]) end
redis.call('EXPIRE', figures, ARGV[4])
return 1
