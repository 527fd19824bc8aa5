-- include guardhead.lua
-- A plain value that begins with the magic now is wrapped.
for _,k in ipairs(KEYS) do
  if look(k) then
    local v = redis.call('GET', k)
    -- include wrap.lua
    redis.call('SET', k, v, 'KEEPTTL')
  end
end
return r
