-- Returns the compressed fields of a hash and their values as a flat list. KEYS[1]; ARGV: the magic, how many
-- elements are enough.
local m, most, found = ARGV[1], tonumber(ARGV[2]), {}
local h = redis.call('HGETALL', KEYS[1])
for i = 2,#h,2 do
  if string.sub(h[i], 1, #m) == m then
    found[#found+1] = h[i-1]
    found[#found+1] = h[i]
    if #found > most then break end
  end
end
return found
