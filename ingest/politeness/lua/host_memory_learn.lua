-- `pages` holds the latest pages as digits, 1 for one that needed a browser. Hosts that never did keep nothing.
local pages = redis.call('HGET', KEYS[1], 'pages')
if not pages and ARGV[1] == '0' then return 0 end
pages = string.sub((pages or '') .. ARGV[1], -tonumber(ARGV[2]))
if not string.find(pages, '1', 1, true) then return redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'pages', pages)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
