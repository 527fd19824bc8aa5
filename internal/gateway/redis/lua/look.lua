-- look returns whether the string of a key begins with m. A user may lack the right to one of the commands
-- for this, or to both. A value that the user may not read may be compressed, so the second result is the
-- error then. The third result says that the key is not a string.
local function look(k)
  local v = redis.pcall('GETRANGE', k, 0, #m-1)
  if type(v) == 'table' and string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then v = redis.pcall('GET', k) end
  if type(v) ~= 'table' then return v and string.sub(v, 1, #m) == m end
  if string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then return false, v end
  return false, nil, true
end
