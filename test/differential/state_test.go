package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
)

// databases is the number of databases that a stream uses.
const databases = 3

// contents reads everything that is stored at addr: type, expiry and value by database and key.
func contents(addr string) (map[string]*item, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := map[string]*item{}
	for db := range databases {
		switch selected, err := c.do("SELECT", strconv.Itoa(db)); {
		case err != nil:
			return nil, err
		case selected.kind == '-': // a cluster has only one database
			return all, nil
		}
		keys, err := c.do("KEYS", "*")
		if err != nil {
			return nil, err
		}
		for _, k := range keys.items {
			if all[fmt.Sprintf("%d/%s", db, k.text)], err = readItem(c, k.text); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

type item struct {
	kind   string
	ttl    *node
	fields *node // expiry of a hash's fields; nil: none
	value  *node
}

func readItem(c *client, key string) (*item, error) {
	kind, err := c.do("TYPE", key)
	if err != nil {
		return nil, err
	}
	it := &item{kind: kind.text}
	if it.ttl, err = c.do("PTTL", key); err != nil {
		return nil, err
	}
	switch it.kind {
	case "string":
		it.value, err = c.do("GET", key)
	case "hash":
		it.value, err = c.do("HGETALL", key)
	case "list":
		it.value, err = c.do("LRANGE", key, "0", "-1")
	case "set":
		it.value, err = c.do("SMEMBERS", key)
	case "zset":
		it.value, err = c.do("ZRANGE", key, "0", "-1", "WITHSCORES")
	case "stream":
		it.value, err = c.do("XRANGE", key, "-", "+")
	default: // a type of a module
		it.value = &node{}
	}
	if err != nil {
		return nil, err
	}
	switch it.kind {
	case "hash":
		normalise(sortedPairs, it.value)
		if it.fields, err = fieldTimes(c, key, it.value); err != nil {
			return nil, err
		}
	case "set":
		normalise(sortedItems, it.value)
	}
	return it, nil
}

// fieldTimes returns when the fields of a hash expire, in their order.
func fieldTimes(c *client, key string, pairs *node) (*node, error) {
	args := []string{"HPEXPIRETIME", key, "FIELDS", strconv.Itoa(len(pairs.items))}
	for _, p := range pairs.items {
		args = append(args, p.items[0].text)
	}
	times, err := c.do(args...)
	if err != nil || times.kind == '-' { // they don't expire
		return &node{kind: '*'}, err
	}
	return times, nil
}

// sameContents compares the data stored at two addresses.
func sameContents(plain, gateway string) error {
	want, err := contents(plain)
	if err != nil {
		return fmt.Errorf("plain server: %w", err)
	}
	got, err := contents(gateway)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	for _, k := range sortedKeys(want, got) {
		w, g := want[k], got[k]
		switch {
		case w == nil || g == nil:
			return fmt.Errorf("key %q: plain has it %v, gateway %v", k, w != nil, g != nil)
		case w.kind != g.kind:
			return fmt.Errorf("key %q: type %s, through the gateway %s", k, w.kind, g.kind)
		case w.value.String() != g.value.String():
			a, b := []byte(w.value.String()), []byte(g.value.String())
			return fmt.Errorf("key %q (%s):\n  plain:   %s\n  gateway: %s", k, w.kind, clip(a, b), clip(b, a))
		case w.fields != nil && !nearTrees(w.fields, g.fields):
			return fmt.Errorf("key %q: fields expire at %s, through the gateway %s", k, w.fields, g.fields)
		case !near(w.ttl, g.ttl, 10_000):
			return fmt.Errorf("key %q: PTTL %s, through the gateway %s", k, w.ttl.text, g.ttl.text)
		}
	}
	return nil
}

func sortedKeys(a, b map[string]*item) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// census counts the values of strings, hashes and streams on a server.
type census struct{ values, sealed int }

// count reads the server directly. Every envelope must open without any data of the gateway.
func (n *census) count(addr string) error {
	stored, err := contents(addr)
	if err != nil {
		return err
	}
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	for k, it := range stored {
		for _, v := range it.values() {
			n.values++
			if !envelope.IsSealed([]byte(v)) {
				continue
			}
			n.sealed++
			if _, err := sealer.Open(nil, []byte(v)); err != nil {
				return fmt.Errorf("key %q: stored %.40q: %w", k, v, err)
			}
		}
	}
	return nil
}

// values returns the values of an item that may be compressed.
func (it *item) values() []string {
	var out []string
	switch it.kind {
	case "string":
		out = append(out, it.value.text)
	case "hash":
		for _, p := range it.value.items {
			out = append(out, p.items[1].text)
		}
	case "stream":
		for _, entry := range it.value.items {
			for i, f := range entry.items[1].items {
				if i%2 == 1 {
					out = append(out, f.text)
				}
			}
		}
	}
	return out
}

func describe(steps []step) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "  %s\n", steps[i].String())
	}
	return b.String()
}
