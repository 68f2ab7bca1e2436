-- Counts one call of KEYS[1], unless ARGV[1] were made already; the key expires after ARGV[2] seconds.
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
