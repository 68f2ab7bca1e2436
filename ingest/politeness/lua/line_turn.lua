-- After line_state: goes through the lines KEYS as far as it leads now.
local most, count = tonumber(ARGV[1]), #KEYS
local answer, states = {0, 0}, {}
for at = 1, count do states[at] = read(KEYS[at]) end
answer[2] = states[1].slow > 0 and 1 or 0
for at = 1, count do
    local state, held = states[at], 2 + count + 2 * (at - 1)
    local interval = math.max(tonumber(ARGV[1 + at]), state.slow)
    local era, moment = tonumber(ARGV[held] or -1), tonumber(ARGV[held + 1] or 0)
    if era ~= state.era then
        moment = math.max(now, state.next, state.last + interval, state.closed)
        if moment - now > most then
            answer[1] = moment - now
            return answer
        end
        state.next = moment + interval
        write(state, interval)
    end
    answer[1 + 2 * at], answer[2 + 2 * at] = state.era, moment
    answer[1] = math.max(moment, state.last + interval, state.closed) - now
    if answer[1] > 0 then return answer end
end
for at = 1, count do
    local state, interval = states[at], tonumber(ARGV[1 + at])
    state.last, state.interval = now, interval
    state.next = math.max(state.next, now + math.max(interval, state.slow))
    write(state, interval)
end
answer[1] = 0
return answer
