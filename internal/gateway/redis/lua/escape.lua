-- Wraps values that begin with the magic. KEYS; ARGV: the magic, how many of the keys are checked as strings
-- (the rest as hashes), plain bytes that contain the magic. In a hash, which may hold envelopes, only values
-- that are part of those bytes are wrapped.
-- include putfield.lua
local m = ARGV[1]
local function plain(v)
  for i = 3,#ARGV do
    if string.find(ARGV[i], v, 1, true) then return true end
  end
end
local function wrap(v)
  -- include wrapvalue.lua
  return v
end
for i,k in ipairs(KEYS) do
  if i <= tonumber(ARGV[2]) then
    if redis.pcall('GETRANGE', k, 0, #m-1) == m then redis.call('SET', k, wrap(redis.call('GET', k)), 'KEEPTTL') end
  else
    local h = redis.pcall('HGETALL', k)
    if not h.err then
      for j = 1,#h,2 do
        if string.sub(h[j+1], 1, #m) == m and plain(h[j+1]) then
          local e = putfield(k, h[j], wrap(h[j+1]))
          if e then return e end
        end
      end
    end
  end
end
