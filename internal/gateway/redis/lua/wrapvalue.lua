-- Turns the plain value v into an envelope with codec raw, whose header has a CRC-32 of it (docs/FORMAT.md).
local T = {}
for i = 0,255 do
  local c = i
  for _ = 1,8 do
    if bit.band(c, 1) == 1 then c = bit.bxor(bit.rshift(c, 1), 0xEDB88320) else c = bit.rshift(c, 1) end
  end
  T[i] = c
end
local c, len, xor, band, shift, byte = -1, #v, bit.bxor, bit.band, bit.rshift, string.byte
for i = 1,len do c = xor(shift(c, 8), T[band(xor(c, byte(v, i)), 255)]) end
c = bit.bnot(c)
local h = m..string.char(16, 0)
while len > 127 do
  h = h..string.char(len%128+128)
  len = math.floor(len/128)
end
h = h..string.char(len)
for i = 0,3 do h = h..string.char(bit.band(bit.rshift(c, 8*i), 255)) end
v = h..v
