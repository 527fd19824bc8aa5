package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
)

// notDrawn maps commands that are not generated from a server's documentation to the reason. A name stands
// for all that begin with it.
var notDrawn = map[string]string{
	"shutdown": "ends the server", "debug": "speaks of what is stored", "quit": "ends the connection", "failover": "of replication",
	"replicaof": "of replication", "slaveof": "of replication", "sync": "of replication", "psync": "of replication", "replconf": "of replication",
	"monitor": "sees what is stored", "migrate": "to another server", "cluster": "of clusters, see cluster_test.go", "sentinel": "of Sentinels", "trimslots": "of clusters",
	"clusterscan": "of clusters", "subscribe": "has no reply of its own", "psubscribe": "has no reply of its own", "ssubscribe": "has no reply of its own",
	"unsubscribe": "has no reply of its own", "punsubscribe": "has no reply of its own", "sunsubscribe": "has no reply of its own",
	"multi": "drawn as what is around others", "exec": "drawn as what is around others", "discard": "drawn as what is around others", "watch": "may be aborted, see gen_test.go",
	"unwatch": "see gen_test.go", "auth": "logs in", "hello": "see gen_test.go", "reset": "see gen_test.go", "client": "names connections, see gen_test.go", "select": "see gen_test.go",
	"save": "forks", "bgsave": "forks", "bgrewriteaof": "forks", "config": "of the server", "module": "of the server", "acl": "of the server", "memory": "speaks of what is stored",
	"object": "speaks of what is stored", "info": "of the server", "latency": "of the server", "slowlog": "shows what is stored", "commandlog": "shows what is stored",
	"hotkeys": "of the server", "lastsave": "of the server", "time": "of the server", "command": "of the server", "script": "see gen_test.go", "function": "see gen_test.go", "role": "of the server",
	"wait": "of replication", "spop": "random, and writes", "pfdebug": "speaks of what is stored", "pfselftest": "slow", "lolwut": "a picture", "dump": "envelopes are in it", "readonly": "of clusters",
	"readwrite": "of clusters", "ts.incrby": "stamps by the clock", "ts.decrby": "stamps by the clock", "asking": "of clusters", "restore": "takes what DUMP gave, see gen_test.go",
	"ft.": "of indexes over hashes", "_ft.": "of indexes over hashes", "timeseries.": "of clusters", "search.": "of clusters", "bf.loadchunk": "takes what SCANDUMP gave", "cf.loadchunk": "takes what SCANDUMP gave",
	"json.debug": "speaks of what is stored", "bf.debug": "speaks of what is stored", "cf.debug": "speaks of what is stored", "tdigest.": "approximates, in any order",
}

func isDrawn(name string) bool {
	first, _, _ := strings.Cut(name, " ")
	if notDrawn[first] != "" {
		return false
	}
	for prefix := range notDrawn {
		if strings.HasSuffix(prefix, ".") && strings.HasPrefix(first, prefix) {
			return false
		}
	}
	return true
}

// drawer generates streams from a server's documentation.
type drawer struct {
	*generator
	commands []docCommand
	pool     [][]byte // values that are reused, so that comparisons succeed
	next     int      // index of the next command
	ids      int      // last ID of a stream entry
	fields   int
}

func newDrawer(seed uint64, commands []docCommand) *drawer {
	d := &drawer{generator: newGenerator(seed, nil)}
	for _, c := range commands {
		if isDrawn(c.name()) {
			d.commands = append(d.commands, c)
		}
	}
	d.r.Shuffle(len(d.commands), func(i, j int) { d.commands[i], d.commands[j] = d.commands[j], d.commands[i] })
	d.pool = append(d.pool, d.v.text(300), d.v.text(900), d.v.magic(200), d.v.envelope(200), []byte("17"), []byte("short"))
	return d
}

// stream generates n commands. It first stores some values of every type. Some commands are in
// transactions.
func (d *drawer) stream(n int) []step {
	d.steps = nil
	for d.conn = range connections {
		d.addNorm(anyText, "HELLO", 2+d.r.IntN(2))
		if d.conn == 0 {
			d.add("FUNCTION", "LOAD", "REPLACE", library)
		}
		d.last().drain = true
	}
	for len(d.steps) < n {
		d.conn = d.r.IntN(connections)
		d.fill()
		inside := d.chance(25)
		if inside {
			d.add("MULTI")
		}
		for range 1 + d.r.IntN(4) {
			d.draw(&d.commands[d.next])
			d.next = (d.next + 1) % len(d.commands)
		}
		if inside {
			d.add("EXEC")
		}
		d.last().drain = true
	}
	return d.steps
}

func (d *drawer) last() *step { return &d.steps[len(d.steps)-1] }

// fill stores a value of each type, for commands to find.
func (d *drawer) fill() {
	switch d.r.IntN(7) {
	case 0, 1:
		d.add("SET", d.typed('s'), d.stored())
	case 2, 3:
		d.add("HSET", d.typed('h'), "fa", d.stored(), "fb", d.stored(), "fc", d.r.IntN(100))
	case 4:
		stream := d.typed('x')
		d.add("XADD", stream, d.id(), "fa", d.stored())
		d.add("XGROUP", "CREATE", stream, "one", "0")
		d.addNorm(exact, "XREADGROUP", "GROUP", "one", "two", "COUNT", 2, "STREAMS", stream, ">")
	case 5:
		d.add("RPUSH", d.typed('l'), "a", "b", "1")
		d.add("SET", d.typed('n'), d.r.IntN(100))
	case 6:
		d.add("ZADD", d.typed('z'), 1, "a", 2, "b")
		d.add("SADD", d.typed('t'), "a", "b", "1")
	}
}

func (d *drawer) stored() []byte {
	if d.chance(60) {
		return d.pool[d.r.IntN(len(d.pool))]
	}
	return d.v.value(3000)
}

// typed returns a key of a type; the letters are those of generator.key.
func (d *drawer) typed(letter byte) string {
	return string(letter) + ":" + string('a'+byte(d.r.IntN(2)))
}

// id returns the ID of a stream entry, greater than all before.
func (d *drawer) id() string {
	d.ids++
	return strconv.Itoa(d.ids) + "-1"
}

// letters maps a group of commands to the types of its keys.
var letters = map[string]string{
	"string": "sssn", "bitmap": "s", "hash": "h", "list": "l", "set": "t", "sorted-set": "z", "sorted_set": "z", "stream": "x", "hyperloglog": "p", "geo": "g",
	"generic": "shltzx", "scripting": "sh",
}

func (d *drawer) keyOf(c *docCommand) string {
	set := letters[c.group]
	switch {
	case set == "":
		set = c.words[0][:1]
		return "m" + strings.ToLower(set) + ":" + string('a'+byte(d.r.IntN(2)))
	case strings.HasPrefix(c.name(), "sort"):
		// Ties keep the order of a set's members, which differs between servers.
		set = "l"
	case d.chance(8):
		set = "shltzx"
	case strings.HasPrefix(c.name(), "incr") || strings.HasPrefix(c.name(), "decr"):
		set = "n"
	}
	return d.typed(set[d.r.IntN(len(set))])
}

// draw adds a command with arguments as its documentation describes them.
func (d *drawer) draw(c *docCommand) {
	var args []any
	for _, w := range c.words {
		args = append(args, w)
	}
	if len(c.arguments) > 0 {
		args = d.arguments(args, c, c.arguments)
	} else {
		args = d.guess(args, c)
	}
	d.addNorm(normOf(c), args...)
}

// guess generates arguments for a command that documents none, such as those of modules.
func (d *drawer) guess(args []any, c *docCommand) []any {
	most := c.arity - int64(len(c.words))
	if c.arity < 0 {
		most = -c.arity - int64(len(c.words)) + int64(d.r.IntN(3))
	}
	for i := range most {
		if c.firstKey > 0 && i+int64(len(c.words)) == c.firstKey {
			args = append(args, d.keyOf(c))
			continue
		}
		args = append(args, d.pick("$", "$.a", "1", "2", `{"a":[1,{"b":"c"}]}`, `"text"`, "0.01", "a", "1000"))
	}
	return args
}

// arguments adds the arguments of a list. An integer argument in front of several others holds their
// number.
func (d *drawer) arguments(args []any, c *docCommand, list []docArgument) []any {
	counted := -1 // position of the number
	for i := range list {
		a := &list[i]
		if a.kind == "integer" && strings.HasPrefix(a.name, "num") && a.name != "num-matches" && a.name != "numlocal" && a.name != "numreplicas" {
			if a.token != "" {
				args = append(args, a.token)
			}
			counted = len(args)
			args = append(args, 0)
			continue
		}
		n := 1
		if a.optional {
			n = d.r.IntN(2)
		}
		if a.multiple && n > 0 {
			n += d.r.IntN(3)
		}
		for k := range n {
			if a.token != "" && (k == 0 || a.tokenEach) && a.kind != "pure-token" {
				args = append(args, a.token)
			}
			args = d.argument(args, c, a)
		}
		if counted >= 0 {
			args[counted], counted = n, -1
		}
	}
	return args
}

// argument adds one argument, without its token.
func (d *drawer) argument(args []any, c *docCommand, a *docArgument) []any {
	switch a.kind {
	case "pure-token":
		return append(args, d.token(a.token))
	case "block":
		return d.arguments(args, c, a.arguments)
	case "oneof":
		one := a.arguments[d.r.IntN(len(a.arguments))]
		one.optional = false
		return d.arguments(args, c, []docArgument{one})
	case "key":
		return append(args, d.keyOf(c))
	case "integer", "unix-time":
		return append(args, d.number(c, a.name, a.kind))
	case "double":
		if a.name == "timeout" {
			return append(args, "0.01")
		}
		return append(args, d.pick("1", "2.5", "0.01"))
	case "pattern":
		return append(args, d.pick("*", "w:*", "s:?"))
	}
	return append(args, d.text(c, a.name))
}

// token returns the token itself, except for tokens that make the two servers differ: IDs made from the
// time, and trimming that depends on the size of the stored data.
func (d *drawer) token(token string) string {
	switch token {
	case "*":
		return d.id()
	case "~":
		return "="
	}
	return token
}

func (d *drawer) number(c *docCommand, name, kind string) any {
	switch {
	case c.name() == "setbit" && name == "value" || name == "bit":
		return d.r.IntN(2)
	case strings.Contains(name, "digest"):
		// Redis 8.6 answers other values twice inside MULTI.
		return d.pick("0123456789abcdef", "ffffffffffffffff")
	case name == "count" && strings.HasSuffix(c.name(), "scan"):
		// The order, and so what one call returns, depends on the size of the stored data.
		return 1000
	case slices.Contains(c.flags, "blocking") && (name == "milliseconds" || name == "timeout"):
		return 10
	case strings.Contains(name, "milliseconds") && kind == "unix-time":
		return "4000000000000"
	case kind == "unix-time":
		return "4000000000"
	case name == "milliseconds" || name == "ms" || name == "timeout":
		return 5_000_000
	case name == "seconds" || name == "ttl":
		return 1000 + d.r.IntN(1000)
	case name == "min-idle-time":
		return d.idle()
	case name == "destination-db" || strings.HasPrefix(name, "index") || name == "db":
		return d.r.IntN(databases)
	case name == "cursor":
		return 0
	case d.chance(10):
		return d.pick("-1", "0", "-3", "x")
	}
	return d.r.IntN(20)
}

// idle returns an idle time in milliseconds that all entries have exceeded, or none has: the values between
// depend on how long each server took.
func (d *drawer) idle() string { return d.pick("0", "9000000000") }

func (d *drawer) text(c *docCommand, name string) any {
	switch name {
	case "value", "comparison-value", "ifeq-value", "ifne-value", "message":
		return d.stored()
	case "field":
		// A field must not occur twice in a command: HSETEX with EX crashes Redis 8.6 then.
		d.fields++
		return "f" + string('a'+byte(d.fields%5))
	case "id", "lastid", "last-id", "max-deleted-id":
		if c.name() == "xadd" {
			return d.id()
		}
		if c.name() == "xreadgroup" {
			return ">"
		}
		return d.pick("1-1", "0", "5-1", fmt.Sprint(d.ids, "-1"))
	case "start", "end", "min", "max", "stop":
		if c.group == "stream" {
			return d.pick("-", "+", "0", "5")
		}
		return d.pick("[a", "-", "+", "0", "2", "(b")
	case "script":
		return d.pick(scripts[0].body, "return redis.call('STRLEN',KEYS[1])", "return redis.call('HGET',KEYS[1],'fa')", "return {KEYS,ARGV}")
	case "function":
		return "nosuch"
	case "min-idle-time":
		if c.name() == "xreadgroup" {
			// The reply contains the idle time of claimed entries, which depends on the clock.
			return "1000000000"
		}
		return d.idle()
	case "sha1":
		return strings.Repeat("a", 40)
	case "group", "consumer", "pid", "iid":
		return d.pick("one", "one", "two")
	case "threshold":
		return d.r.IntN(30)
	case "encoding":
		return d.pick("u8", "i16", "u63")
	case "serialized-value":
		return "none"
	case "pivot", "member", "element":
		if d.chance(5) {
			return envelope.Magic
		}
	}
	return d.pick("a", "b", "c", "1")
}

// normOf returns how replies of a command may differ, according to the server's own documentation.
func normOf(c *docCommand) norm {
	switch name := c.name(); {
	case strings.Contains(name, "ttl") || strings.Contains(name, "expiretime"):
		return nearby
	// Ties and maps have another order inside scripts.
	case name == "hscan" || name == "lcs" || name == "sort" || name == "sort_ro":
		return leaves
	case strings.HasPrefix(name, "xinfo") || name == "xpending" || strings.HasPrefix(name, "v") || strings.HasPrefix(name, "topk.") || strings.HasPrefix(name, "cf."):
		return anyText
	case strings.HasPrefix(name, "x"):
		return exact // IDs are not made from the time here
	}
	for _, tip := range c.tips {
		switch tip {
		case "nondeterministic_output":
			return anyText
		case "nondeterministic_output_order":
			return leaves
		}
	}
	return exact
}
