-- The broker's clock, and a line's state. A float holds microseconds exactly until the year 2255.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(number) return string.format('%.0f', number) end

local function read(key)
    local got = redis.call('HMGET', key, 'next', 'last', 'closed', 'era', 'interval', 'slow', 'slowed')
    local state = {key = key}
    for at, name in ipairs({'next', 'last', 'closed', 'era', 'interval', 'slow', 'slowed'}) do
        state[name] = tonumber(got[at] or 0)
    end
    if state.last > now then  -- the clock was put back
        state.next, state.last, state.closed, state.slowed = 0, 0, 0, 0
    end
    return state
end

local function write(state, interval)
    local kept = (state.slow > 0 and SLOW_KEPT or KEPT) + 2 * interval
    redis.call('HSET', state.key, 'next', text(state.next), 'last', text(state.last), 'closed', text(state.closed),
        'era', text(state.era), 'interval', text(state.interval), 'slow', text(state.slow),
        'slowed', text(state.slowed))
    redis.call('PEXPIRE', state.key, text((math.max(now, state.next, state.closed) - now + kept) / 1000))
end
