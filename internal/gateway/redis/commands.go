package redis

import (
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// strategy says how the gateway handles a command.
type strategy uint8

const (
	// verbatim: neither its arguments nor its reply hold values that may be compressed.
	verbatim strategy = iota
	// values: some arguments are values to compress, or elements of the reply to decompress, or both.
	values
	// computed: a read whose answer depends on the value's content. For an envelope the gateway answers it
	// (package compute).
	computed
	// inflated: it computes on the stored value or changes part of it. An envelope is decompressed in place
	// first, in one step with the command (guard.go).
	inflated
	// compared: it compares the stored value, and may then replace or delete it (guard.go).
	compared
	// floats: runs unchanged, and like inflated if the server reports that the value is no number.
	floats
	// scripts: runs code on keys; their values are decompressed in the same transaction (gatewaytransaction.go).
	scripts
	// sorts: SORT, whose BY and GET read other keys (sort.go).
	sorts
	// controls: changes the state of the connection or of the server (controlcommands.go).
	controls
	// unknown: not in the table. The server is asked for its keys, and it is handled like a script.
	unknown
)

// command is a row of the table.
type command struct {
	name     string
	arity    int // as in COMMAND: arguments with the name, or at least -arity; others are forwarded, and the server refuses them
	strategy strategy
	args     argValues  // which arguments are values
	reply    shape      // which elements of the reply are values
	keys     keyRange   // where the keys are, for computed, inflated, scripts
	anyArity bool       // controls: the server acts on it even when the number of arguments is wrong
	writes   bool       // inflated: may leave a plain value that begins with the magic
	hash     bool       // the values in the reply are fields of a hash
	optional bool       // not every server has it (sideconn.go)
	flags    entryFlags // of the entry for its reply

	shareable bool // neither needs nor changes the state of a connection, and never blocks it (shared.go)
	mayWrite  bool
}

// blockingCommands are the verbatim commands that may block.
const blockingCommands = "blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin wait waitaof"

// keyRange gives the positions of a request's keys, like first, last and step in COMMAND. numKeys, if set, is
// the index of the argument that holds the number of keys.
type keyRange struct{ first, last, step, numKeys int }

// verbatimCommands lists the commands of Redis 7.0 to 8.6 and of Valkey 8 and 9 that never use the content of
// a value. Commands not in the table are unknown.
const verbatimCommands = `
echo:2 ping:-1 swapdb:3
copy:-3 del:-2 dump:2 exists:-2 expire:-3 expireat:-3 expiretime:2 keys:2 migrate:-6 move:3 object:-2
persist:2 pexpire:-3 pexpireat:-3 pexpiretime:2 pttl:2 randomkey:1 rename:3 renamenx:3 restore:-4 scan:-2
touch:-2 ttl:2 type:2 unlink:-2 wait:3 waitaof:4 restore-asking:-4
geoadd:-5 geodist:-4 geohash:-2 geopos:-2 georadius:-6 georadiusbymember:-5 georadiusbymember_ro:-5
georadius_ro:-6 geosearch:-7 geosearchstore:-8
hdel:-3 hexists:3 hincrby:4 hkeys:2 hlen:2 hexpire:-6 hpexpire:-6 hexpireat:-6 hpexpireat:-6 hpersist:-5
httl:-5 hpttl:-5 hexpiretime:-5 hpexpiretime:-5
pfadd:-2 pfcount:-2 pfdebug:3 pfmerge:-2 pfselftest:1
blmove:6 blmpop:-5 blpop:-3 brpop:-3 brpoplpush:4 lindex:3 linsert:5 llen:2 lmove:5 lmpop:-4 lpop:-2
lpos:-3 lpush:-3 lpushx:-3 lrange:4 lrem:4 lset:4 ltrim:4 rpop:-2 rpoplpush:3 rpush:-3 rpushx:-3
publish:3 pubsub:-2 spublish:3
acl:-2 bgrewriteaof:1 bgsave:-1 config:-2 dbsize:1 debug:-2
failover:-1 info:-1 lastsave:1 latency:-2 lolwut:-1 memory:-2
replicaof:3 role:1 save:1 shutdown:-1 slaveof:3 slowlog:-2 time:1
sadd:-3 scard:2 sdiff:-2 sdiffstore:-3 sinter:-2 sintercard:-3 sinterstore:-3 sismember:3 smembers:2
smismember:-3 smove:4 spop:-2 srandmember:-2 srem:-3 sscan:-3 sunion:-2 sunionstore:-3
bzmpop:-5 bzpopmax:-3 bzpopmin:-3 zadd:-4 zcard:2 zcount:4 zdiff:-3 zdiffstore:-4 zincrby:4 zinter:-3
zintercard:-3 zinterstore:-4 zlexcount:4 zmpop:-4 zmscore:-3 zpopmax:-2 zpopmin:-2 zrandmember:-2
zrange:-4 zrangebylex:-4 zrangebyscore:-4 zrangestore:-5 zrank:-3 zrem:-3 zremrangebylex:4
zremrangebyrank:4 zremrangebyscore:4 zrevrange:-4 zrevrangebylex:-4 zrevrangebyscore:-4 zrevrank:-3
zscan:-3 zscore:3 zunion:-3 zunionstore:-4
ft._list:-1 ft.info:-1 ft.alter:-1 ft._alterifnx:-1 ft.aliasadd:-1 ft._aliasaddifnx:-1 ft.aliasdel:-1 ft._aliasdelifx:-1
ft.aliasupdate:-1 ft.config:-1 ft.dictadd:-1 ft.dictdel:-1 ft.dictdump:-1 ft.explain:-1 ft.explaincli:-1 ft.spellcheck:-1
ft.sugadd:-1 ft.sugdel:-1 ft.sugget:-1 ft.suglen:-1 ft.synupdate:-1 ft.syndump:-1 ft.tagvals:-1
xack:-4 xackdel:-6 xcfgset:-2 xdel:-3 xdelex:-5 xgroup:-2 xidmprecord:5 xlen:2 xpending:-3 xsetid:-3 xtrim:-4
decr:2 decrby:3 incr:2 incrby:3
vadd:-5 vcard:2 vdim:2 vemb:-3 vgetattr:3 vinfo:2 vismember:3 vlinks:-3 vrandmember:-2 vrange:-4 vrem:3 vsetattr:4 vsim:-4
clusterscan:-2 commandlog:-2 hotkeys:-2 trimslots:-5`

// moduleFamilies are the name prefixes of module commands whose keys have types of their own. For keys that
// hold other values, compressed or not, they report a wrong type.
var moduleFamilies = []string{"json.", "ts.", "bf.", "cf.", "cms.", "topk.", "tdigest."}

// moduleCommand is the row of all commands of moduleFamilies.
var moduleCommand = &command{name: "module", arity: -1, strategy: verbatim, mayWrite: true}

// valueCommands are the rows of commands that handle values.
var valueCommands = []command{
	{name: "set", arity: -3, strategy: values, args: argValues{first: 2, single: true, kind: stringValue}, reply: shapeBulk},
	{name: "setex", arity: 4, strategy: values, args: argValues{first: 3, single: true, kind: stringValue}},
	{name: "psetex", arity: 4, strategy: values, args: argValues{first: 3, single: true, kind: stringValue}},
	{name: "setnx", arity: 3, strategy: values, args: argValues{first: 2, single: true, kind: stringValue}},
	{name: "getset", arity: 3, strategy: values, args: argValues{first: 2, single: true, kind: stringValue}, reply: shapeBulk},
	{name: "mset", arity: -3, strategy: values, args: argValues{first: 2, step: 2, pairs: true, kind: stringValues}},
	{name: "msetnx", arity: -3, strategy: values, args: argValues{first: 2, step: 2, pairs: true, kind: stringValues}},
	{name: "hset", arity: -4, strategy: values, args: argValues{first: 3, step: 2, pairs: true, kind: hashValues}},
	{name: "hmset", arity: -4, strategy: values, args: argValues{first: 3, step: 2, pairs: true, kind: hashValues}},
	{name: "hsetnx", arity: 4, strategy: values, args: argValues{first: 3, single: true, kind: hashValues}},
	{name: "xadd", arity: -5, strategy: values, args: argValues{find: findFields, kind: streamValues}},
	{name: "hsetex", arity: -6, strategy: values, optional: true, args: argValues{find: findHashFields, kind: hashValues}},
	{name: "msetex", arity: -4, strategy: values, optional: true, args: argValues{find: findPairs, kind: stringValues}},

	{name: "get", arity: 2, strategy: values, reply: shapeBulk},
	{name: "getdel", arity: 2, strategy: values, reply: shapeBulk},
	{name: "getex", arity: -2, strategy: values, reply: shapeBulk},
	{name: "mget", arity: -2, strategy: values, reply: shapeAll},
	{name: "hget", arity: 3, strategy: values, reply: shapeBulk, hash: true},
	{name: "hmget", arity: -3, strategy: values, reply: shapeAll, hash: true},
	{name: "hgetdel", arity: -5, strategy: values, optional: true, reply: shapeAll, hash: true},
	{name: "hgetex", arity: -5, strategy: values, optional: true, reply: shapeAll, hash: true},
	{name: "hvals", arity: 2, strategy: values, reply: shapeAll, hash: true},
	{name: "hgetall", arity: 2, strategy: values, reply: shapePairs, hash: true},
	{name: "hrandfield", arity: -2, strategy: values, reply: shapeRandomPairs, hash: true},
	{name: "hscan", arity: -3, strategy: values, reply: shapeScanPairs, hash: true},
	{name: "xrange", arity: -4, strategy: values, reply: shapeEntries},
	{name: "xrevrange", arity: -4, strategy: values, reply: shapeEntries},
	{name: "xclaim", arity: -6, strategy: values, reply: shapeEntries},
	{name: "xautoclaim", arity: -6, strategy: values, reply: shapeClaimed},
	{name: "xread", arity: -4, strategy: values, reply: shapeStreams, flags: flagMayBlock},
	{name: "xreadgroup", arity: -7, strategy: values, reply: shapeStreams, flags: flagMayBlock},
	{name: "xinfo", arity: -2, strategy: values, reply: shapeStreamInfo},

	{name: "ft.search", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.aggregate", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.hybrid", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.cursor", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.profile", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.get", arity: -1, strategy: values, reply: shapeAny},
	{name: "ft.mget", arity: -1, strategy: values, reply: shapeAny},

	{name: "strlen", arity: 2, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "hstrlen", arity: 3, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "getrange", arity: 4, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "substr", arity: 4, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "getbit", arity: 3, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "bitcount", arity: -2, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "bitpos", arity: -3, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "bitfield_ro", arity: -2, strategy: computed, keys: keyRange{first: 1, last: 1, step: 1}},

	{name: "digest", arity: 2, strategy: computed, optional: true, keys: keyRange{first: 1, last: 1, step: 1}},

	{name: "delex", arity: -2, strategy: compared, optional: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "delifeq", arity: 3, strategy: compared, optional: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "append", arity: 3, strategy: inflated, writes: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "setrange", arity: 4, strategy: inflated, writes: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "setbit", arity: 4, strategy: inflated, writes: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "bitfield", arity: -2, strategy: inflated, writes: true, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "bitop", arity: -4, strategy: inflated, writes: true, keys: keyRange{first: 2, last: -1, step: 1}},
	{name: "lcs", arity: -3, strategy: inflated, keys: keyRange{first: 1, last: 2, step: 1}},
	{name: "incrbyfloat", arity: 3, strategy: floats, keys: keyRange{first: 1, last: 1, step: 1}},
	{name: "hincrbyfloat", arity: 4, strategy: floats, keys: keyRange{first: 1, last: 1, step: 1}},

	{name: "sort", arity: -2, strategy: sorts},
	{name: "sort_ro", arity: -2, strategy: sorts},
	{name: "eval", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
	{name: "eval_ro", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
	{name: "evalsha", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
	{name: "evalsha_ro", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
	{name: "fcall", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
	{name: "fcall_ro", arity: -3, strategy: scripts, reply: shapeAny, keys: keyRange{first: 3, step: 1, numKeys: 2}},
}

// controlCommands change the state of the connection.
var controlCommands = []command{
	{name: "auth", arity: -2},
	{name: "hello", arity: -1},
	{name: "select", arity: 2},
	{name: "client", arity: -2},
	{name: "quit", arity: -1},
	{name: "reset", arity: 1},
	{name: "multi", arity: 1},
	{name: "exec", arity: 1, anyArity: true},
	{name: "discard", arity: 1},
	{name: "watch", arity: -2},
	{name: "unwatch", arity: 1},
	{name: "subscribe", arity: -2},
	{name: "psubscribe", arity: -2},
	{name: "ssubscribe", arity: -2},
	{name: "unsubscribe", arity: -1},
	{name: "punsubscribe", arity: -1},
	{name: "sunsubscribe", arity: -1},
	{name: "monitor", arity: 1},
	{name: "replconf", arity: -1},
	{name: "sync", arity: 1},
	{name: "psync", arity: -3},
	{name: "flushall", arity: -1},
	{name: "flushdb", arity: -1},
	{name: "function", arity: -2},
	{name: "asking", arity: 1},
	{name: "readonly", arity: 1},
	{name: "readwrite", arity: 1},
	{name: "cluster", arity: -2},
	{name: "sentinel", arity: -2},
	{name: "ft.create", arity: -1},
	{name: "ft._createifnx", arity: -1},
	{name: "ft.dropindex", arity: -1},
	{name: "ft._dropindexifx", arity: -1},
	{name: "ft.drop", arity: -1},
	{name: "ft._dropifx", arity: -1},
	{name: "module", arity: -2},
	{name: "command", arity: -1},
	{name: "script", arity: -2},
	{name: resp.GatewayCommand, arity: 1},
}

// table maps lower-case names to rows. Rows are never changed.
type table map[string]*command

// newTable builds the table; each gateway has one.
func newTable() table {
	t := table{}
	for word := range strings.FieldsSeq(verbatimCommands) {
		name, arity, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(arity) // a constant
		t[name] = &command{name: name, arity: n, strategy: verbatim}
	}
	for name := range strings.FieldsSeq(blockingCommands) {
		t[name].flags = flagMayBlock
	}
	for i := range valueCommands {
		c := valueCommands[i]
		t[c.name] = &c
	}
	for _, c := range controlCommands {
		c.strategy = controls
		t[c.name] = &c
	}
	t.setSharing()
	return t
}

// unknownCommand is the row of every command without one.
var unknownCommand = &command{name: "other", arity: -1, strategy: unknown, reply: shapeAny, mayWrite: true}

// lookup finds the row of a command name in any letter case, without allocating.
func (t table) lookup(name []byte) *command {
	var low [maxNameBytes]byte
	if len(name) > len(low) {
		return unknownCommand
	}
	for i, c := range name {
		low[i] = resp.Lower(c)
	}
	if c := t[string(low[:len(name)])]; c != nil {
		return c
	}
	for _, family := range moduleFamilies {
		if len(name) > len(family) && string(low[:len(family)]) == family {
			return moduleCommand
		}
	}
	return unknownCommand
}

// accepts reports whether the server acts on a request with that many arguments.
func (c *command) accepts(argc int) bool {
	if c.anyArity {
		return true
	}
	if c.arity >= 0 {
		return argc == c.arity
	}
	return argc >= -c.arity
}

// find returns the keys of a request; ok is false if the server will refuse it.
func (k keyRange) find(args [][]byte) (keys [][]byte, ok bool) {
	last := k.last
	if k.numKeys > 0 {
		n, good := resp.ParseCount(args[k.numKeys])
		if !good || n > len(args)-k.first {
			return nil, false
		}
		last = k.first + n - 1
	}
	if last < 0 {
		last += len(args)
	}
	if last >= len(args) {
		return nil, false
	}
	for i := k.first; i <= last; i += k.step {
		keys = append(keys, args[i])
	}
	return keys, true
}

// request is one request of the client. Its bytes are valid until it has been handled.
type request struct {
	cmd  *command
	args [][]byte
	raw  []byte // the unchanged request; nil if there is none

	unguarded bool // its user may run no script on its keys
}

func isComparison(word []byte) bool {
	_, n := optionOf(comparisons, word)
	return n > 0
}

// comparisons are the options that compare the stored value.
var comparisons = []option{{"ifeq", 1}, {"ifne", 1}, {"ifdeq", 1}, {"ifdne", 1}}

// comparedSet is the row of a SET that compares. Its reply needs no decompressing even with GET, since the stored value
// has been decompressed in place.
var comparedSet = &command{name: "set", arity: -3, strategy: compared, keys: keyRange{first: 1, last: 1, step: 1}}

// bitcountFrom is the row of BITCOUNT with a start and no end: Valkey takes the last byte as the end, Redis
// refuses it, so the server must answer.
var bitcountFrom = &command{name: "bitcount", arity: -2, strategy: inflated, keys: keyRange{first: 1, last: 1, step: 1}}

// mayAddEnvelope reports whether a command queued in a transaction may bring a compressed value to a key that was
// examined before.
func mayAddEnvelope(c *command) bool {
	switch c.strategy {
	case scripts, unknown:
		return true
	}
	switch c.name {
	case "rename", "renamenx", "copy", "move", "restore", "restore-asking", "swapdb", moduleCommand.name:
		return true
	}
	return false
}

func evalFor(name string) string {
	if len(name) > 3 && name[len(name)-3:] == "_ro" {
		return "EVAL_RO"
	}
	return "EVAL"
}

// wrappedScript is the row of the script in which nestedUnits runs an unknown command.
var wrappedScript = &command{name: "eval", arity: -3, strategy: scripts, reply: shapeAny}

// rowCache caches the table rows of one client's commands.
type rowCache struct {
	table  table
	cached [8]cachedRow
}

// cachedRow is a command that the client has sent, with its name as the client wrote it.
type cachedRow struct {
	name [8]byte // as many bytes as the row's name has
	cmd  *command
}

// lookup is table.lookup with a cache for names that repeat.
func (t *rowCache) lookup(name []byte) *command {
	if len(name) == 0 || len(name) > len(cachedRow{}.name) {
		return t.table.lookup(name)
	}
	r := &t.cached[(name[0]>>1^byte(len(name)))%byte(len(t.cached))]
	if r.cmd != nil && len(r.cmd.name) == len(name) && string(r.name[:len(name)]) == string(name) {
		return r.cmd
	}
	cmd := t.table.lookup(name)
	if len(cmd.name) == len(name) {
		copy(r.name[:], name)
		r.cmd = cmd
	}
	return cmd
}

// positions returns the positions of the values in a request of which some arguments have arrived.
func (a *argValues) positions(args [][]byte, argc int) (valuePositions, positionStatus) {
	if a.find != nil {
		return a.find(args, argc)
	}
	p := valuePositions{first: a.first, step: a.step, end: argc}
	if a.single {
		p.step, p.end = 1, a.first+1
	}
	if p.first >= argc || a.pairs && (argc-p.first)%2 == 0 {
		return p, refused
	}
	return p, located
}

// argValues says which arguments are values: every step-th from first, or what find returns if their
// positions depend on options.
type argValues struct {
	first, step int
	kind        valueKind
	find        valueFinder
	pairs       bool // (argc - first + 1) must be even, or the server refuses the request
	single      bool // only the one at first
}

type valueKind uint8

const (
	noValues valueKind = iota
	stringValue
	stringValues // MSET: the key is the argument before each value
	hashValues
	streamValues
)
