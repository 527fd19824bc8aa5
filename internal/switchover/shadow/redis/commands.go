package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// command is the server's description of a command in COMMAND.
type command struct {
	name           string // with its container: "xinfo stream"
	writes         bool
	reads          bool
	blocks         bool
	admin          bool
	pubsub         bool
	random         bool // its answer is not deterministic
	anyOrder       bool // the elements of its answer have no order
	keys           []keySpec
	hasUnknownKeys bool // the specs do not cover all keys
	subcommands    map[string]*command
}

// keySpec describes where keys are among the arguments, as defined in
// https://redis.io/docs/latest/develop/reference/key-specs/.
type keySpec struct {
	index   int    // begin_search by index
	keyword string // or begin_search by a keyword, searched from index on
	numbers bool   // find_keys by a number of keys, else by a range
	last    int    // of a range: the last key, relative to the first; negative: from the end of the arguments
	step    int
	limit   int
	count   int // of numbers: the argument with the number of keys, relative to the begin
	first   int // of numbers: the first key, relative to the begin
}

// loadCommands asks a server for its commands.
func loadCommands(ctx context.Context, rdb *goredis.Client) (map[string]*command, error) {
	reply, err := rdb.Do(ctx, "COMMAND").Slice()
	if err != nil {
		return nil, err
	}
	table := map[string]*command{}
	for _, raw := range reply {
		if c := parseCommand(raw); c != nil {
			table[c.name] = c
		}
	}
	if len(table) == 0 {
		return nil, fmt.Errorf("it lists no command in a known format")
	}
	return table, nil
}

// parseCommand parses an element of COMMAND's reply: name, arity, flags, first, last, step, and from 7.0 on
// categories, tips, key specifications and subcommands.
func parseCommand(raw any) *command {
	f, _ := raw.([]any)
	if len(f) < 6 {
		return nil
	}
	name, _ := f[0].(string)
	c := &command{name: strings.ReplaceAll(strings.ToLower(name), "|", " ")}
	flags := texts(f[2])
	c.writes, c.reads = slices.Contains(flags, "write"), slices.Contains(flags, "readonly")
	c.blocks, c.admin, c.pubsub = slices.Contains(flags, "blocking"), slices.Contains(flags, "admin"), slices.Contains(flags, "pubsub")
	if len(f) < 10 {
		c.keys, c.hasUnknownKeys = legacySpec(f), slices.Contains(flags, "movablekeys")
		return c
	}
	for _, tip := range texts(f[7]) {
		c.random = c.random || tip == "nondeterministic_output"
		c.anyOrder = c.anyOrder || tip == "nondeterministic_output_order"
	}
	specs, _ := f[8].([]any)
	for _, s := range specs {
		c.addSpec(fields(s))
	}
	c.addSubcommands(f[9])
	return c
}

func (c *command) addSubcommands(raw any) {
	list, _ := raw.([]any)
	for _, raw := range list {
		sub := parseCommand(raw)
		if sub == nil {
			continue
		}
		if c.subcommands == nil {
			c.subcommands = map[string]*command{}
		}
		_, name, _ := strings.Cut(sub.name, " ")
		c.subcommands[name] = sub
	}
}

// legacySpec returns the key range in the format of servers before 7.0.
func legacySpec(f []any) []keySpec {
	first, last, step := integer(f[3]), integer(f[4]), integer(f[5])
	if first == 0 {
		return nil
	}
	if last >= 0 {
		last -= first
	}
	return []keySpec{{index: first, last: last, step: max(step, 1)}}
}

func (c *command) addSpec(spec map[string]any) {
	c.hasUnknownKeys = c.hasUnknownKeys || slices.Contains(texts(spec["flags"]), "incomplete")
	begin, find := fields(spec["begin_search"]), fields(spec["find_keys"])
	at, how := fields(begin["spec"]), fields(find["spec"])
	k := keySpec{index: integer(at["index"]), step: max(integer(how["keystep"]), 1)}
	switch begin["type"] {
	case "index":
	case "keyword":
		k.keyword, _ = at["keyword"].(string)
		k.index = integer(at["startfrom"])
	default:
		c.hasUnknownKeys = true
		return
	}
	switch find["type"] {
	case "range":
		k.last, k.limit = integer(how["lastkey"]), integer(how["limit"])
	case "keynum":
		k.numbers, k.count, k.first = true, integer(how["keynumidx"]), integer(how["firstkey"])
	default:
		c.hasUnknownKeys = true
		return
	}
	c.keys = append(c.keys, k)
}

// keysOf returns the keys among a request's arguments; ok is false if not all of them can be determined.
func (c *command) keysOf(args [][]byte) (keys [][]byte, ok bool) {
	for _, k := range c.keys {
		found, ok := k.find(args)
		if !ok {
			return nil, false
		}
		keys = append(keys, found...)
	}
	return keys, !c.hasUnknownKeys
}

func (k keySpec) find(args [][]byte) (keys [][]byte, ok bool) {
	begin := k.index
	if k.keyword != "" {
		if begin = k.afterKeyword(args); begin < 0 {
			return nil, true // the keyword is optional
		}
	}
	if begin <= 0 || begin >= len(args) {
		return nil, begin == len(args) // the server refuses it
	}
	end := begin + k.last + 1
	if k.last < 0 {
		end = len(args) + k.last + 1
		if k.limit > 1 {
			end = begin + (end-begin)/k.limit
		}
	}
	if k.numbers {
		if begin+k.count >= len(args) {
			return nil, false
		}
		n, ok := resp.ParseCount(args[begin+k.count])
		if !ok {
			return nil, false
		}
		begin += k.first
		end = begin + n*k.step
	}
	if end > len(args) || end < begin {
		return nil, false
	}
	for i := begin; i < end; i += k.step {
		keys = append(keys, args[i])
	}
	return keys, true
}

// afterKeyword returns the index of the argument after the keyword, -1 without one. A negative index counts
// from the end, and searches backwards.
func (k keySpec) afterKeyword(args [][]byte) int {
	word := strings.ToLower(k.keyword)
	if k.index < 0 {
		for i := len(args) + k.index; i > 0; i-- {
			if resp.IsWord(args[i], word) {
				return i + 1
			}
		}
		return -1
	}
	for i := k.index; i < len(args); i++ {
		if resp.IsWord(args[i], word) {
			return i + 1
		}
	}
	return -1
}

// fields parses a map: in RESP2 an array of names and values, in RESP3 a map.
func fields(raw any) map[string]any {
	out := map[string]any{}
	switch v := raw.(type) {
	case map[any]any:
		for name, value := range v {
			if s, ok := name.(string); ok {
				out[s] = value
			}
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			if s, ok := v[i].(string); ok {
				out[s] = v[i+1]
			}
		}
	}
	return out
}

func texts(raw any) (out []string) {
	list, _ := raw.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func integer(raw any) int {
	switch v := raw.(type) {
	case int64:
		return int(v)
	case string:
		n, _ := strconv.Atoi(v)
		return n
	}
	return 0
}
