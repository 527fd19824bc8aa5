-- Runs a read on a plain value; returns an envelope instead. KEYS[1]; ARGV: the magic, the index of the last
-- requested byte of an envelope, the command.
local m, k = ARGV[1], KEYS[1]
-- include headof.lua
local h = redis.pcall('GETRANGE', k, 0, #m-1)
if h == m then return {m..'\0cinch', headof(redis.call('GET', k))} end
if type(h) == 'table' and string.sub(h.err, 1, 9) ~= 'WRONGTYPE' then
  h = redis.pcall('GET', k)
  if type(h) == 'table' and string.sub(h.err, 1, 9) ~= 'WRONGTYPE' then return h end
  if type(h) == 'string' and string.sub(h, 1, #m) == m then
    return {m..'\0cinch', headof(h)}
  end
end
return redis.pcall(unpack(ARGV, 3))
