-- Moves an item to an end of another list, if the first one still has it, and the second one is a list.
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 then
    local outcome = redis.pcall(ARGV[2], KEYS[2], ARGV[1])
    if type(outcome) == 'table' and outcome.err then
        redis.call('LPUSH', KEYS[1], ARGV[1])
        return outcome
    end
end
