package redis

import (
	"context"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// allowFull lets a script write on a server that is at its memory limit, where shrinking values helps.
// Without it, and on Redis 6, the server answers OOM.
const allowFull = "#!lua flags=allow-oom\n"

// Both scripts return a list with a number for each change, or the text of an error. They run for every value
// of a store, so they use locals: looking up a global costs the server about as much as finding a key.

// replaceStrings takes keys, and for each the old bytes and the new ones.
const replaceStrings = `local call, keys, args, done = redis.pcall, KEYS, ARGV, {}
for i = 1, #keys do
  local now = call('GET', keys[i])
  if now == args[2 * i - 1] then
    local set = call('SET', keys[i], args[2 * i], 'KEEPTTL')
    done[i] = set.err or 1
  elseif type(now) == 'table' and now.err and string.sub(now.err, 1, 9) ~= 'WRONGTYPE' then
    done[i] = now.err
  else
    done[i] = 0
  end
end
return done
`

// replaceFields takes a key, and for each change the field, the old bytes and the new ones.
const replaceFields = `local call, key, args, done = redis.pcall, KEYS[1], ARGV, {}
for i = 1, #args, 3 do
  local now, at = call('HGET', key, args[i]), #done + 1
  if now == args[i + 1] then
    local set = put(key, args[i], args[i + 2])
    done[at] = type(set) == 'table' and set.err or 1
  elseif type(now) == 'table' and now.err and string.sub(now.err, 1, 9) ~= 'WRONGTYPE' then
    done[at] = now.err
  else
    done[at] = 0
  end
end
return done
`

// rebuildHash recreates a hash whose fields fit a listpack: a hashtable never turns back into one by itself.
// It reads and writes in one step, so there is nothing to compare. Before DEL it writes what is there
// already, to make sure that the writes after DEL will not be refused; errors up to that point leave
// everything unchanged.
//
// Arguments: the largest number of fields, and the largest size of one in bytes. The script reads the time of
// expiry itself.
const rebuildHash = `local key, most, longest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('OBJECT', 'ENCODING', key) ~= 'hashtable' then return 0 end
if redis.call('HLEN', key) > most then return 0 end
local all = redis.call('HGETALL', key)
for i = 1, #all do
  if #all[i] > longest then return 0 end
  if i % 2 == 1 and expires(key, all[i]) then return 0 end
end
local expiry, left = nil, redis.call('PTTL', key)
if left >= 0 then
  local known = redis.pcall('PEXPIRETIME', key)
  if type(known) == 'number' then
    expiry = known
    if expiry >= 9007199254740992 then return 0 end -- it would be rounded
  else
    local now = redis.call('TIME')
    expiry = now[1] * 1000 + math.floor(now[2] / 1000) + left
  end
  redis.call('PEXPIREAT', key, string.format('%.0f', expiry))
end
redis.call('HSET', key, all[1], all[2])
redis.call('DEL', key)
for i = 1, #all, 1000 do
  redis.call('HSET', key, unpack(all, i, math.min(i + 999, #all)))
end
if expiry then redis.call('PEXPIREAT', key, string.format('%.0f', expiry)) end
return 1
`

// putField writes a field. HSET removes its expiry, so put sets it again. Before HSET it sets the expiry to its
// current value: if that is refused nothing has changed yet. Lua's numbers would round a time from 2^53 on. Only Valkey
// accepts such times, and it has HSETEX.
//
// The variable expiring, declared by compose, is true if fields can expire. Where it is nil each script asks, since the
// server may have been upgraded since the last one. It asks by COMMAND INFO, which takes an old server no time, and
// unlike an unknown command counts as no error. If that is denied, HPEXPIRETIME is tried.
const putField = `local function expiry(key, field)
  if expiring == nil then
    local command = redis.pcall('COMMAND', 'INFO', 'HPEXPIRETIME')
    expiring = command.err ~= nil or type(command[1]) == 'table'
  end
  if not expiring then return nil end
  local at = redis.pcall('HPEXPIRETIME', key, 'FIELDS', 1, field)
  if at.err then
    expiring = not string.find(at.err, 'nknown.*command')
    return expiring and at or nil
  end
  return at[1] >= 0 and at[1] or nil
end
local function expires(key, field) return expiry(key, field) ~= nil end
local function put(key, field, new)
  local at = expiry(key, field)
  if type(at) == 'table' then return at end
  if at and at >= 9007199254740992 then
    return redis.pcall('HSETEX', key, 'KEEPTTL', 'FIELDS', 1, field, new)
  end
  if at then
    local again = redis.pcall('HPEXPIREAT', key, string.format('%.0f', at), 'FIELDS', 1, field)
    if again.err then return again end
  end
  local set = redis.pcall('HSET', key, field, new)
  if at then redis.pcall('HPEXPIREAT', key, string.format('%.0f', at), 'FIELDS', 1, field) end
  return set
end
`

// compose builds the scripts.
func (p *prepared) compose() {
	allow, put := "", "local expiring\n"+putField
	if p.flags {
		allow = allowFull
	}
	if p.expiring {
		put = "local expiring = true\n" + putField
	}
	p.growStrings, p.growFields = replaceStrings, put+replaceFields
	p.strings, p.fields, p.rebuild = allow+p.growStrings, allow+p.growFields, allow+put+rebuildHash
}

// isScriptDenial reports whether a command within a script was denied: Redis 7 and 6 word that in several
// ways.
func isScriptDenial(err error) bool {
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure in script") ||
		strings.Contains(text, "user executing the script can't")
}

// Rebuild recreates those hashes that are hashtables though their fields would fit a listpack, and returns
// how many. Expiries stay.
func (s *Space) Rebuild(ctx context.Context, keys [][]byte) (int, error) {
	p := &s.node.store.ready
	if !p.lua || p.listpackCount == 0 || p.listpackBytes == 0 || len(keys) == 0 {
		return 0, nil
	}
	cmds, err := pipe(ctx, s.values, keys, func(pipe goredis.Pipeliner, k string) *goredis.Cmd {
		return pipe.Eval(ctx, p.rebuild, []string{k}, p.listpackCount, p.listpackBytes)
	})
	rebuilt := 0
	for _, cmd := range cmds {
		if n, err := cmd.Int(); err == nil {
			rebuilt += n
		}
	}
	return rebuilt, err
}

// maxRebuild limits the fields of a hash that is rebuilt in one step.
const maxRebuild = 4096
