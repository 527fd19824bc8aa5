-- Precedes a client's script and ends it at an envelope. It removes its own arguments from the end of ARGV:
-- the magic, plain values that begin with it, their number, whether hashes may hold envelopes, and whether
-- values that the user may not read are known to be plain.
do
  local A = ARGV
  local function pop() local v = A[#A] A[#A] = nil return v end
  local clear, hashes, n, plain = pop() == '1', pop(), tonumber(pop()), {}
  for i = 1,n do plain[pop()] = true end
  local m = pop()
  local function sealed(v) return type(v) == 'string' and string.sub(v, 1, #m) == m and not plain[v] end
  -- include look.lua
  for _,k in ipairs(KEYS) do
    local s, hidden, other = look(k)
    if hidden and not clear then return hidden end
    if s and sealed(redis.call('GET', k)) then return {m..'\0cinch', k} end
    if other and hashes == '1' then
      local v = redis.pcall('HVALS', k)
      if not v.err then
        for _,x in ipairs(v) do
          if sealed(x) then return {m..'\0cinch', k} end
        end
      elseif not clear and string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then return v end
    end
  end
end
