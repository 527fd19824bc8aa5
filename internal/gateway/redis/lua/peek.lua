-- A read on a plain value; an envelope is handed out.
-- KEYS[1]; ARGV: the magic, the last byte of an envelope that is wanted, the command.
local m, k = ARGV[1], KEYS[1]
local h = redis.pcall('GETRANGE', k, 0, #m-1)
if h == m then return {m..'\0cinch', redis.call('GETRANGE', k, 0, ARGV[2])} end
if type(h) == 'table' and string.sub(h.err, 1, 9) ~= 'WRONGTYPE' then
  h = redis.pcall('GET', k)
  if type(h) == 'table' and string.sub(h.err, 1, 9) ~= 'WRONGTYPE' then return h end
  if type(h) == 'string' and string.sub(h, 1, #m) == m then
    return {m..'\0cinch', string.sub(h, 1, ARGV[2] == '-1' and -1 or ARGV[2]+1)}
  end
end
return redis.pcall(unpack(ARGV, 3))
