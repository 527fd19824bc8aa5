-- Returns the compressed fields of a hash and their values as a flat list. KEYS[1]; ARGV: the magic, and two
-- limits after which the list ends: its elements, and the bytes of its values (missing: no limit).
local m, most, room, found = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), {}
local h = redis.call('HGETALL', KEYS[1])
for i = 2,#h,2 do
  if string.sub(h[i], 1, #m) == m then
    found[#found+1] = h[i-1]
    found[#found+1] = h[i]
    if room then room = room - #h[i] end
    if #found > most or room and room < 0 then break end
  end
end
return found
