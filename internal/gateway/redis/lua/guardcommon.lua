-- Decompresses known values in place and runs the command. If there are unknown envelopes, it changes nothing
-- and returns those. ARGV: the magic, the number of known values, envelope and value of each, the command.
-- Afterwards r is the reply, found the values of the keys, was their envelopes.
local m, n = ARGV[1], tonumber(ARGV[2])
local known, unknown, found, was = {}, {m..'\0cinch'}, {}, {}
-- include look.lua
for i = 1,n do known[ARGV[1+2*i]] = ARGV[2+2*i] end
for _,k in ipairs(KEYS) do
  local sealed, hidden = look(k)
  if hidden then return hidden end
  if sealed then
    local v = redis.call('GET', k)
    if known[v] then
      found[k] = known[v]
      was[k] = v
    else unknown[#unknown+1] = v end
  end
end
if #unknown > 1 then return unknown end
for k,v in pairs(found) do
  local r = redis.pcall('SET', k, v, 'KEEPTTL')
  if type(r) == 'table' and r.err then return r end
end
local r = redis.pcall(unpack(ARGV, 3+2*n))
