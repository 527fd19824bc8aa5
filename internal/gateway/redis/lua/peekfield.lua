-- peek.lua for a field of a hash: ARGV[4] is the key, ARGV[5] the field.
local m, h = ARGV[1], redis.pcall('HGET', KEYS[1], ARGV[5])
-- include headof.lua
if type(h) == 'string' and string.sub(h, 1, #m) == m then return {m..'\0cinch', headof(h)} end
if type(h) == 'table' and string.sub(h.err, 1, 9) ~= 'WRONGTYPE' then return h end
return redis.pcall(unpack(ARGV, 3))
