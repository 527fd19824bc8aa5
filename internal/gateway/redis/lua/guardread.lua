-- include guardcommon.lua
-- The command only reads: restore the envelopes.
for k,v in pairs(was) do redis.call('SET', k, v, 'KEEPTTL') end
return r
