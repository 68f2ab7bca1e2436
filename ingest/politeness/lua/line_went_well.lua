-- After line_state: shortens a slowed interval.
local interval, state = tonumber(ARGV[1]), read(KEYS[1])
if state.slow == 0 then return end
local shorter = math.floor(state.slow * tonumber(ARGV[2]))
state.slow = shorter > interval and shorter or 0
write(state, interval)
