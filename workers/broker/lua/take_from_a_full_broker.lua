-- A broker at its `maxmemory` refuses to move an item, except to a script that begins by removing something.
redis.call('LREM', KEYS[2], 1, '')
return redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
