-- After line_state: no turn begins for a while, or at once again where that is 0. Voids the tickets.
local pause, state = tonumber(ARGV[1]), read(KEYS[1])
state.closed = pause > 0 and math.max(state.closed, now + pause) or now
state.next = math.max(state.last + math.max(state.interval, state.slow), state.closed)
state.era = state.era + 1
write(state, state.interval)
