-- Unless the first key says that a worker lives, moves what it took back to where the next worker takes.
if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
redis.call('SREM', KEYS[4], ARGV[1])
local items = 0
while redis.call('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT') do
    items = items + 1
end
return items
