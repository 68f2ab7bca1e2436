-- How many of the latest pages needed a browser; 0 where the next page is read without one.
local pages = redis.call('HGET', KEYS[1], 'pages')
if not pages then return 0 end
local _, shells = string.gsub(pages, '1', '')
if shells < tonumber(ARGV[1]) then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[3])
if redis.call('HINCRBY', KEYS[1], 'asked', 1) % tonumber(ARGV[2]) == 0 then return 0 end
return shells
