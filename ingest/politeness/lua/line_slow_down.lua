-- After line_state: doubles the interval, voids the tickets, and lets no turn begin for a while.
local interval, pause, longest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local state = read(KEYS[1])
if now - state.slowed >= state.slow then
    state.slow = math.min(2 * math.max(state.slow, state.interval, interval), longest)
    state.slowed = now
end
state.closed = math.max(state.closed, now + math.max(state.slowed + state.slow - now, pause))
state.next, state.era = state.closed, state.era + 1
write(state, interval)
