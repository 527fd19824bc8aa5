-- headof returns the requested part of an envelope. It returns all of it if the header does not give the
-- length, as for values that a client library compressed (flag 0x40).
local function headof(v)
  local flags = string.byte(v, #m+2) or 0
  if ARGV[2] == '-1' or math.floor(flags/64) % 2 == 1 then return v end
  return string.sub(v, 1, ARGV[2]+1)
end
