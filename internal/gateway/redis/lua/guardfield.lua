-- guard.lua for a field of a hash. KEYS[1]; ARGV: the magic, the number of known values, envelope and value
-- of each, the command, which has the key and the field behind its name.
-- include putfield.lua
local m, n = ARGV[1], tonumber(ARGV[2])
local k, f = KEYS[1], ARGV[5+2*n]
local v = redis.pcall('HGET', k, f)
if type(v) == 'table' and string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then return v end
if type(v) == 'string' and string.sub(v, 1, #m) == m then
  local known
  for i = 1,n do
    if ARGV[1+2*i] == v then known = ARGV[2+2*i] end
  end
  if not known then return {m..'\0cinch', v} end
  local e = putfield(k, f, known)
  if e then return e end
end
local r = redis.pcall(unpack(ARGV, 3+2*n))
v = redis.pcall('HGET', k, f)
if type(v) == 'string' and string.sub(v, 1, #m) == m then
  -- include wrapvalue.lua
  putfield(k, f, v)
end
return r
