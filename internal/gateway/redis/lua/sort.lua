-- Runs SORT once no unknown envelope affects it. If weights, or values to be stored, are unknown envelopes,
-- it changes nothing and returns those. Weights are decompressed in place while SORT compares them. Values
-- are decompressed in the list that SORT has stored: the server orders by bytes when it stores, and by its
-- locale otherwise, so the list must be the one that it made. KEYS[1] is the sorted key; ARGV: the magic, the
-- BY pattern or "", "k" and the STORE key or "", for each GET 1 or for "#" 0, the number of known values,
-- envelope and value of each, the number of arguments of a SORT that fetches all that may be stored, these,
-- and the command.
-- include putfield.lua
local m, by, store, gets, n = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local known, unknown, weights, plain, field = {}, {m..'\0cinch'}, {}, {}, nil
for i = 1,n do known[ARGV[4+2*i]] = ARGV[5+2*i] end
-- include look.lua
local function check(v)
  if type(v) == 'string' and string.sub(v, 1, #m) == m then
    if known[v] then return known[v] end
    unknown[#unknown+1] = v
  end
end
if by ~= '' then
  local t = redis.call('TYPE', KEYS[1]).ok
  local e = {}
  if t == 'list' then e = redis.call('LRANGE', KEYS[1], 0, -1)
  elseif t == 'set' then e = redis.call('SMEMBERS', KEYS[1])
  elseif t == 'zset' then e = redis.call('ZRANGE', KEYS[1], 0, -1) end
  local star = string.find(by, '*', 1, true)
  local pre, post = string.sub(by, 1, star-1), string.sub(by, star+1)
  local arrow = string.find(post, '->', 1, true)
  if arrow and arrow+2 <= #post then
    field = string.sub(post, arrow+2)
    post = string.sub(post, 1, arrow-1)
  end
  for _,x in ipairs(e) do
    local k = pre..x..post
    local v, hidden
    if field then
      v = redis.pcall('HGET', k, field)
      if type(v) == 'table' then hidden = v end
    else
      v, hidden = look(k)
      if v then v = redis.call('GET', k) end
    end
    -- A key of another type has no weight; for a key of another node SORT itself returns the error.
    if hidden and string.sub(hidden.err, 1, 9) ~= 'WRONGTYPE' and not string.find(hidden.err, 'non local key', 1, true)
      and not string.find(hidden.err, 'same slot', 1, true) then return hidden end
    local w = check(v)
    if w then
      weights[#weights+1] = {k, w, v}
      plain[w] = true
    end
  end
end
if #unknown > 100 then return {unpack(unknown, 1, 100)} end
if #unknown > 1 then return unknown end
-- put(2) decompresses weights in place and put(3) restores their envelopes, except for the key that now has
-- the stored list.
local function put(i, but)
  for _,w in ipairs(weights) do
    if w[1] == but then
    elseif field then
      local e = putfield(w[1], field, w[i])
      if e then return e end
    else redis.call('SET', w[1], w[i], 'KEEPTTL') end
  end
end
local function isvalue(i, v)
  return v and not plain[v] and string.byte(gets, (i-1)%#gets+1) == 49
end
local e = put(2)
if e then return e end
local first = 7+2*n
local sealed, nlook = false, tonumber(ARGV[first-1])
if nlook > 0 then
  local l = redis.pcall(unpack(ARGV, first, first+nlook-1))
  for i,v in ipairs(l) do
    if isvalue(i, v) and check(v) then sealed = true end
  end
  if l.err or #unknown > 1 then
    -- SortWatched leaves this call out.
    put(3)
    if l.err then return l end
    return {unpack(unknown, 1, 100)}
  end
end
local r = redis.pcall(unpack(ARGV, first+nlook))
store = string.sub(store, 2)
local failed = type(r) == 'table' and r.err
-- SortWatched leaves this call out.
put(3, not failed and nlook > 0 and store)
if failed or not sealed then return r end
local l = redis.call('LRANGE', store, 0, -1)
for i,v in ipairs(l) do
  if isvalue(i, v) then l[i] = check(v) or v end
end
redis.call('DEL', store)
for i = 1,#l,1000 do redis.call('RPUSH', store, unpack(l, i, math.min(i+999, #l))) end
return #l
