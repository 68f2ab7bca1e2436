-- Unless the first key shows that the worker lives, moves its taken items back to where workers take next.
if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
redis.call('SREM', KEYS[4], ARGV[1])
local items = 0
while redis.call('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT') do
    items = items + 1
end
return items
