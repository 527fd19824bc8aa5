package differential

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
)

// connections is the number of clients of a stream. Only one at a time has commands in flight, so that the
// order is the same on both sides.
const connections = 3

type form uint8

const (
	formArray   form = iota
	formInline       // inline, if the arguments allow it
	formCloses       // raw bytes after which the server closes the connection
	formRestore      // DUMP of one key, RESTORE of the reply to another
)

// step is one command of a stream.
type step struct {
	conn  int
	form  form
	args  [][]byte
	norm  norm
	drain bool // wait for all replies before the next step
}

func (s *step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d:", s.conn)
	switch s.form {
	case formInline:
		b.WriteString(" (inline)")
	case formCloses:
		b.WriteString(" (raw)")
	case formRestore:
		b.WriteString(" DUMP and RESTORE")
	}
	for _, a := range s.args {
		if len(a) > 120 {
			fmt.Fprintf(&b, " %q…(%d bytes)", a[:100], len(a))
			continue
		}
		fmt.Fprintf(&b, " %q", a)
	}
	return b.String()
}

// generator generates a stream of commands. It tracks the state of the connections approximately; the
// runner tracks it exactly.
type generator struct {
	r     *rand.Rand
	v     *values
	steps []step

	conn     int
	multi    [connections]bool
	muted    [connections]bool
	watching [connections]bool
	space    [connections]int

	// tags are prefixes of each connection's keys, so that the keys belong to its cluster node; nil: no
	// cluster.
	tags []string
}

func newGenerator(seed uint64, tags []string) *generator {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return &generator{r: r, tags: tags, v: &values{r: r, sealer: envelope.NewSealer(envelope.SealerOptions{})}}
}

// stream generates at least n commands, and leaves no connection in a transaction or muted.
func (g *generator) stream(n int) []step {
	g.prepare()
	for len(g.steps) < n {
		g.turn()
	}
	for g.conn = range connections {
		g.settle()
		g.steps[len(g.steps)-1].drain = true
	}
	return g.steps
}

// settle ends the connection's transaction, WATCH and muting.
func (g *generator) settle() {
	if g.multi[g.conn] {
		g.exec()
	}
	if g.watching[g.conn] {
		g.add("UNWATCH")
		g.watching[g.conn] = false
	}
	g.add("CLIENT", "REPLY", "ON")
	g.muted[g.conn] = false
}

// turn generates a pipeline of one connection.
func (g *generator) turn() {
	g.conn = g.r.IntN(connections)
	depth := []int{1, 1, 1, 2, 3, 5, 16, 40}[g.r.IntN(8)]
	for range depth {
		g.one()
	}
	g.steps[len(g.steps)-1].drain = true
}

// one generates one command, or a few that belong together.
func (g *generator) one() {
	p := g.r.IntN(1000)
	switch {
	case g.multi[g.conn] && p < 180:
		g.exec()
	case p < 25:
		g.transaction()
	case p < 75:
		g.control()
	case g.anyWatch():
		g.harmless()
	default:
		g.command()
	}
	if last := &g.steps[len(g.steps)-1]; last.form == formArray && !staysAsItIs(last.args) {
		g.disturb(last)
	}
}

// staysAsItIs reports whether a command must not be disturbed: the generator's tracking depends on it, or
// it is COMMAND, which without arguments lists all commands in any order.
func staysAsItIs(args [][]byte) bool {
	switch string(args[0]) {
	case "MULTI", "DISCARD", "WATCH", "UNWATCH", "RESET", "CLIENT", "COMMAND":
		return true
	}
	return false
}

func (g *generator) anyWatch() bool {
	for _, w := range g.watching {
		if w {
			return true
		}
	}
	return false
}

// disturb makes some commands invalid, oddly spelled or inline.
func (g *generator) disturb(s *step) {
	p := g.r.IntN(1000)
	if s.norm != exact {
		p += 26 // the comparison depends on the arguments
	}
	switch {
	case p < 12 && len(s.args) > 1:
		at := 1 + g.r.IntN(len(s.args)-1)
		s.args = append(s.args[:at:at], s.args[at+1:]...)
	case p < 20:
		s.args = append(s.args[:len(s.args):len(s.args)], []byte("x"))
	case p < 26 && len(s.args) > 1:
		s.args = s.args[:1]
	case p < 60:
		s.args[0] = []byte(strings.ToLower(string(s.args[0])))
	case p < 80 && len(s.args[0]) > 0:
		name := bytes.ToLower(s.args[0])
		first := min(1, len(name))
		s.args[0] = append(bytes.ToUpper(name[:first:first]), name[first:]...)
	case p < 130:
		s.form = formInline
	}
}

// add appends a command. Arguments are strings, bytes or integers.
func (g *generator) add(args ...any) { g.addNorm(exact, args...) }

func (g *generator) addNorm(n norm, args ...any) {
	s := step{conn: g.conn, norm: n}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			s.args = append(s.args, []byte(a))
		case []byte:
			s.args = append(s.args, a)
		case [][]byte:
			s.args = append(s.args, a...)
		case int:
			s.args = append(s.args, strconv.AppendInt(nil, int64(a), 10))
		default:
			panic(fmt.Sprintf("argument %T", a))
		}
	}
	g.steps = append(g.steps, s)
}

// pick returns one of the words.
func (g *generator) pick(words ...string) string { return words[g.r.IntN(len(words))] }

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

// key returns a key that usually holds the type of the letter: s string, n number, f
// float, h hash, l list, t set, z sorted set, x stream, p HyperLogLog, c short string.
func (g *generator) key(letter byte) []byte {
	switch p := g.r.IntN(100); {
	case p < 4:
		letter = "snfhltzxpc"[g.r.IntN(10)]
	case p < 5:
		return []byte(envelope.Magic + "key")
	case p < 6:
		return []byte{}
	}
	names := 3
	if letter == 's' || letter == 'h' {
		names = 6
	}
	return append([]byte(g.tag()), letter, ':', 'a'+byte(g.r.IntN(names)))
}

// tag returns a key prefix, usually that of the connection: its node refuses keys of others.
func (g *generator) tag() string {
	switch {
	case g.tags == nil:
		return ""
	case g.chance(4):
		return g.tags[g.r.IntN(connections)]
	}
	return g.tags[g.conn]
}

func (g *generator) keys(letter byte, most int) [][]byte {
	keys := make([][]byte, 1+g.r.IntN(most))
	for i := range keys {
		keys[i] = g.key(letter)
	}
	return keys
}

func (g *generator) field() []byte {
	switch p := g.r.IntN(40); p {
	case 0:
		return []byte{}
	case 1:
		return []byte(envelope.Magic)
	case 2:
		return g.v.envelope(100)
	}
	return []byte{'f', 'a' + byte(g.r.IntN(5))}
}

// value returns a value for a command. In transactions its size is limited, as is the memory that the
// gateway uses for them.
func (g *generator) value() []byte {
	if g.multi[g.conn] {
		return g.v.value(8 << 10)
	}
	return g.v.value(most)
}

func (g *generator) prepare() {
	for g.conn = range connections {
		g.add("SELECT", 0)
	}
	for g.conn = range connections {
		if g.conn > 0 && g.tags == nil {
			break // all use one server
		}
		for _, s := range scripts {
			g.add("SCRIPT", "LOAD", s.body)
		}
		g.add("FUNCTION", "LOAD", "REPLACE", library)
		g.steps[len(g.steps)-1].drain = true
	}
}

// exec ends the connection's transaction.
func (g *generator) exec() {
	if g.chance(12) {
		g.add("DISCARD")
	} else {
		g.add("EXEC")
	}
	g.multi[g.conn], g.watching[g.conn] = false, false
}

// transaction begins a transaction or watches keys for one.
func (g *generator) transaction() {
	if last := &g.steps[len(g.steps)-1]; g.muted[g.conn] || len(last.args) == 3 && string(last.args[2]) == "SKIP" {
		// The runner drops a MULTI whose reply would be muted.
		g.add("PING")
		return
	}
	switch {
	case g.multi[g.conn]:
		g.add(g.pick("MULTI", "WATCH"), g.key('s')) // refused inside a transaction
		if string(bytes.ToUpper(g.steps[len(g.steps)-1].args[0])) == "MULTI" {
			g.steps[len(g.steps)-1].args = g.steps[len(g.steps)-1].args[:1]
		}
	case g.watching[g.conn] || g.chance(60):
		g.add("MULTI")
		g.multi[g.conn] = true
	default:
		g.add("WATCH", g.keys(g.pick("s", "h", "n")[0], 3))
		g.watching[g.conn] = true
	}
}

// harmless generates a command that never puts a compressed value back without changing it. While a key is
// watched that may abort a transaction, which is documented.
func (g *generator) harmless() {
	switch g.r.IntN(8) {
	case 0:
		g.set()
	case 1:
		g.add("GET", g.key('s'))
	case 2:
		g.add("INCR", g.key('n'))
	case 3:
		g.add("HSET", g.key('h'), g.field(), g.value())
	case 4:
		g.addNorm(sortedPairs, "HGETALL", g.key('h'))
	case 5:
		g.add("STRLEN", g.key('s'))
	case 6:
		g.add("APPEND", g.key('s'), append([]byte("x"), g.v.text(g.r.IntN(100))...))
	case 7:
		g.add("GETRANGE", g.key('s'), g.r.IntN(100)-50, g.r.IntN(200)-100)
	}
}

// control generates a command that changes the connection's state.
func (g *generator) control() {
	if g.multi[g.conn] {
		g.add("SELECT", g.r.IntN(3))
		return
	}
	switch p := g.r.IntN(100); {
	case p < 25:
		g.space[g.conn] = g.r.IntN(3)
		g.add("SELECT", g.space[g.conn])
	case p < 28:
		g.add("SELECT", g.pick("99", "-1", "x", "", "01"))
	case p < 50:
		g.addNorm(helloReply, "HELLO", g.pick("2", "3", "3", "4", "x"))
	case p < 55:
		g.addNorm(helloReply, "HELLO")
	case p < 60:
		g.muted[g.conn] = true
		g.add("CLIENT", "REPLY", "OFF")
	case p < 68:
		g.add("CLIENT", "REPLY", "SKIP")
	case p < 80:
		g.muted[g.conn] = false
		g.add("CLIENT", "REPLY", "ON")
	case p < 83:
		g.add("CLIENT", "REPLY", "MAYBE")
	case p < 88:
		g.add("RESET")
		g.muted[g.conn], g.watching[g.conn], g.space[g.conn] = false, false, 0
	case p < 92:
		g.add("CLIENT", g.pick("GETNAME", "GETREDIR", "FOO"))
	case p < 94:
		g.add(g.pick("EXEC", "DISCARD", "UNWATCH")) // without MULTI, the first two don't end a WATCH
	case p < 95 && !g.muted[g.conn] && !g.watching[g.conn]:
		g.closing()
	case p < 97:
		g.add("SWAPDB", g.r.IntN(3), g.r.IntN(3))
	default:
		g.add(g.pick("PING", "ECHO"), g.value())
	}
}

// closing generates bytes after which the server closes the connection.
func (g *generator) closing() {
	raw := g.pick(
		"QUIT\r\n",
		"*1\r\n$4\r\nQUIT\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-5\r\n",
		"*-3x\r\n",
		"*2\r\nGET\r\n",
		"*2\r\n$3\r\nGET\r\n:1\r\n",
		"*99999999999\r\n",
		"*1\r\n$99999999999\r\n",
		"*1\r\n$\r\n",
		"*1\r\n$abc\r\n",
		"SET a \"unbalanced\r\n",
		"SET a 'x'y\r\n",
	)
	if n := len(g.steps); n > 0 {
		g.steps[n-1].drain = true
	}
	g.steps = append(g.steps, step{conn: g.conn, form: formCloses, args: [][]byte{[]byte(raw)}, drain: true})
}
