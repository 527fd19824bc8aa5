-- include guardcommon.lua
-- Wrap plain values that begin with the magic after the command.
for _,k in ipairs(KEYS) do
  if look(k) then
    local v = redis.call('GET', k)
    -- include wrapvalue.lua
    redis.call('SET', k, v, 'KEEPTTL')
  end
end
return r
