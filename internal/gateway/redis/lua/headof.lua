-- What is wanted of an envelope: all of it too if its header does not tell the length, as of values that other libraries
-- had compressed (flag 0x40).
local function headof(v)
  local flags = string.byte(v, #m+2) or 0
  if ARGV[2] == '-1' or math.floor(flags/64) % 2 == 1 then return v end
  return string.sub(v, 1, ARGV[2]+1)
end
