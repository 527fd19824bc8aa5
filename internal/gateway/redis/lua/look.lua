-- look says whether the string of a key begins with m. Users may lack the right to one of the
-- commands that tell, or to both: what they may not see may be sealed, so the second result is an
-- error then. The third says that the key is no string.
local function look(k)
  local v = redis.pcall('GETRANGE', k, 0, #m-1)
  if type(v) == 'table' and string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then v = redis.pcall('GET', k) end
  if type(v) ~= 'table' then return v and string.sub(v, 1, #m) == m end
  if string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then return false, v end
  return false, nil, true
end
