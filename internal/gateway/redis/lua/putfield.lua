-- putfield sets a field of a hash and keeps its expiry. If the user may not read or set the expiry, it
-- returns an error and has changed nothing.
local function putfield(k, f, v)
  local t = redis.pcall('HPEXPIRETIME', k, 'FIELDS', 1, f)
  local at = -1
  if type(t) == 'table' then
    if t.err then
      if not string.find(string.lower(t.err), 'unknown', 1, true) then return t end
    else at = t[1] end
  end
  if at < 0 then redis.call('HSET', k, f, v) return end
  -- Lua's numbers would round this expiry. Servers that accept it (Valkey) have HSETEX.
  if at >= 9007199254740992 then
    local r = redis.pcall('HSETEX', k, 'KEEPTTL', 'FIELDS', 1, f, v)
    if type(r) == 'table' and r.err then return r end
    return
  end
  local r = redis.pcall('HPEXPIREAT', k, at, 'FIELDS', 1, f)
  if r.err then return r end
  redis.call('HSET', k, f, v)
  redis.call('HPEXPIREAT', k, at, 'FIELDS', 1, f)
end
