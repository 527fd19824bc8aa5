-- Decompresses known values in place. KEYS; ARGV: how many of the keys are strings (the rest are hashes),
-- envelope and value of each known value.
-- include putfield.lua
local n, known = tonumber(ARGV[1]), {}
local function sealed(v) return type(v) == 'string' and known[v] end
for i = 2,#ARGV,2 do known[ARGV[i]] = ARGV[i+1] end
local function hidden(v) return type(v) == 'table' and v.err and string.sub(v.err, 1, 9) ~= 'WRONGTYPE' end
for i,k in ipairs(KEYS) do
  if i <= n then
    local v = redis.pcall('GET', k)
    if hidden(v) then return v end
    if sealed(v) then redis.call('SET', k, known[v], 'KEEPTTL') end
  else
    local h = redis.pcall('HGETALL', k)
    if hidden(h) then return h end
    if not h.err then
      for j = 1,#h,2 do
        if sealed(h[j+1]) then
          local e = putfield(k, h[j], known[h[j+1]])
          if e then return e end
        end
      end
    end
  end
end
return 1
