-- include guardcommon.lua
-- If a comparison failed, the value is still there, and its envelope replaces it again.
for k,v in pairs(was) do
  if redis.pcall('GET', k) == known[v] then redis.call('SET', k, v, 'KEEPTTL') end
end
return r
