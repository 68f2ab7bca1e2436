-- Renames each key that holds the wrong type, and returns those keys.
local misplaced = {}
for number, key in ipairs(KEYS) do
    local kind = redis.call('TYPE', key)['ok']
    if kind ~= 'none' and kind ~= ARGV[number] then
        redis.call('RENAME', key, ARGV[#KEYS + number])
        table.insert(misplaced, key)
    end
end
return misplaced
