package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer is one client that writes to its own keys until its connection breaks.
type writer struct {
	id   int
	seq  int
	r    *rand.Rand
	h    history
	bad  error // a reply that a crash does not explain
	errs []string
}

func newWriter(id int, seed uint64) *writer {
	return &writer{id: id, r: rand.New(rand.NewPCG(seed, uint64(id))), h: history{before: map[string]string{}}}
}

// writerName is the connection name of writers in the server's list.
const writerName = "chaos-writer"

// run sends pipelines to addr until the connection ends, and records which were acknowledged.
func (w *writer) run(addr string) {
	c, err := dial(addr)
	if err != nil {
		return // refused: nothing was sent
	}
	defer c.conn.Close()
	if _, err := c.do("CLIENT", "SETNAME", writerName); err != nil {
		w.errs = append(w.errs, err.Error())
		return
	}
	for w.bad == nil {
		first := len(w.h.units)
		var pipeline []byte
		for range 1 + w.r.IntN(8) {
			u := w.next()
			w.h.units = append(w.h.units, u)
			pipeline = u.encode(pipeline)
		}
		sent := make(chan error, 1)
		go func() { sent <- c.send(pipeline) }()
		for i := first; i < len(w.h.units); i++ {
			if err := w.readReply(c, w.h.units[i]); err != nil {
				w.errs = append(w.errs, err.Error())
				_ = c.conn.Close()
				<-sent
				return
			}
			w.h.acked = i + 1
		}
		<-sent
	}
}

// encode appends the unit as requests.
func (u unit) encode(dst []byte) []byte {
	if len(u) == 1 {
		return append(dst, request(u[0].args...)...)
	}
	dst = append(dst, request("MULTI")...)
	for _, o := range u {
		dst = append(dst, request(o.args...)...)
	}
	return append(dst, request("EXEC")...)
}

// readReply reads all replies to a unit.
func (w *writer) readReply(c *client, u unit) error {
	n := 1
	if len(u) > 1 {
		n = len(u) + 2
	}
	for range n {
		reply, err := c.frame()
		if err != nil {
			return err
		}
		if strings.Contains(reply, "-ERR") || reply[0] == '-' || reply == "*-1\r\n" {
			w.bad = fmt.Errorf("client %d got %.200q to %.200q", w.id, reply, u[0].args)
			return w.bad
		}
	}
	return nil
}

// next returns a command, or a transaction of several.
func (w *writer) next() unit {
	n := 1
	if w.r.IntN(5) == 0 {
		n = 2 + w.r.IntN(3)
	}
	u := make(unit, n)
	for i := range u {
		u[i] = w.command(n > 1)
	}
	return u
}

func (w *writer) command(inTransaction bool) op {
	w.seq++
	key := fmt.Sprintf("w%d:%c", w.id, 'a'+rune(w.r.IntN(3)))
	hash, field := fmt.Sprintf("h%d", w.id), string('a'+rune(w.r.IntN(3)))
	switch p := w.r.IntN(10); {
	case p < 3:
		value := w.value(inTransaction)
		return op{[]string{"SET", key, value}, func(s map[string]string) { s[key] = value }}
	case p < 6:
		more := fmt.Sprintf("+%d", w.seq)
		return op{[]string{"APPEND", key, more}, func(s map[string]string) { s[key] += more }}
	case p < 7:
		patch := fmt.Sprintf("%06d", w.seq)
		return op{[]string{"SETRANGE", key, "10", patch}, func(s map[string]string) { s[key] = setRange(s[key], 10, patch) }}
	case p < 8 && !inTransaction:
		more := fmt.Sprintf("#%d", w.seq)
		return op{
			[]string{"EVAL", "return redis.call('APPEND',KEYS[1],ARGV[1])", "1", key, more},
			func(s map[string]string) { s[key] += more },
		}
	case p < 9:
		a, b := w.value(true), w.value(true)
		other := fmt.Sprintf("w%d:z", w.id)
		return op{[]string{"MSET", key, a, other, b}, func(s map[string]string) { s[key], s[other] = a, b }}
	}
	value := w.value(true)
	return op{[]string{"HSET", hash, field, value}, func(s map[string]string) { s[hash+"/"+field] = value }}
}

// value returns a value that no other write uses; few are large.
func (w *writer) value(small bool) string {
	n := 50 + w.r.IntN(3000)
	if !small && w.r.IntN(30) == 0 {
		n = 100_000 + w.r.IntN(900_000)
	}
	head := fmt.Sprintf("{client:%d,seq:%d,text:", w.id, w.seq)
	return head + strings.Repeat(fmt.Sprintf("value %d of %d; ", w.seq, w.id), n/16+1)
}

func setRange(s string, at int, patch string) string {
	b := []byte(s)
	for len(b) < at+len(patch) {
		b = append(b, 0)
	}
	copy(b[at:], patch)
	return string(b)
}
