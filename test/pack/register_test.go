package pack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// register is the state of one key in a Redis server: the sequential specification that histories are
// compared with. No value is ever empty. Registers are comparable with ==.
type register struct {
	text    string
	fields  [3]string // of a hash; "": missing
	expires int64     // ms since 1970; 0: never
}

func (r register) hash() bool  { return r.fields != [3]string{} }
func (r register) there() bool { return r.text != "" || r.hash() }

// request is one command on one key.
type request struct {
	name  string // a Redis command, or "set keepttl" or "set nx"
	key   string
	field int
	value string
	at    int64 // for PEXPIREAT, in ms
}

// answer is the reply to a request.
type answer struct {
	text      string
	number    int64
	wrongType bool
	none      bool
}

var wrongType = answer{wrongType: true}

// apply returns the next state and the answer of a correct server.
func (r register) apply(q request) (register, answer) {
	switch q.name {
	case "set":
		return register{text: q.value}, answer{text: "OK"}
	case "set keepttl":
		return register{text: q.value, expires: r.expires}, answer{text: "OK"}
	case "set nx":
		if r.there() {
			return r, answer{none: true}
		}
		return register{text: q.value}, answer{text: "OK"}
	case "del":
		return register{}, yes(r.there())
	case "pexpireat":
		there := r.there()
		if there {
			r.expires = q.at
		}
		return r, yes(there)
	case "persist":
		had := r.expires != 0
		r.expires = 0
		return r, yes(had)
	case "pexpiretime":
		return r, r.expiry()
	case "hset", "hget", "hdel":
		return r.applyToHash(q)
	}
	return r.applyToString(q)
}

func yes(is bool) answer {
	if is {
		return answer{number: 1}
	}
	return answer{}
}

func (r register) expiry() answer {
	switch {
	case !r.there():
		return answer{number: -2}
	case r.expires == 0:
		return answer{number: -1}
	}
	return answer{number: r.expires}
}

// patch is the text that SETRANGE writes at offset 5; all texts are longer.
const patch = "range"

func (r register) applyToString(q request) (register, answer) {
	if r.hash() {
		return r, wrongType
	}
	old := answer{text: r.text, none: r.text == ""}
	switch q.name {
	case "get":
		return r, old
	case "getset":
		return register{text: q.value}, old
	case "getdel":
		return register{}, old
	case "append":
		r.text += q.value
	case "setrange":
		padded := r.text + strings.Repeat("\x00", max(0, 5-len(r.text)))
		r.text = padded[:5] + patch + padded[min(5+len(patch), len(padded)):]
	case "strlen":
	default:
		panic("no model of " + q.name)
	}
	return r, answer{number: int64(len(r.text))}
}

func (r register) applyToHash(q request) (register, answer) {
	if r.text != "" {
		return r, wrongType
	}
	old := r.fields[q.field]
	switch q.name {
	case "hget":
		return r, answer{text: old, none: old == ""}
	case "hset":
		r.fields[q.field] = q.value
		return r, yes(old == "")
	}
	r.fields[q.field] = ""
	if !r.hash() {
		r.expires = 0
	}
	return r, yes(old != "")
}

// registers is the model, in which keys are independent.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(request).key
			byKey[key] = append(byKey[key], o)
		}
		var all [][]porcupine.Operation
		for _, ops := range byKey {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		next, want := state.(register).apply(input.(request))
		return want == output.(answer), next
	},
	DescribeOperation: func(input, output any) string {
		q, a := input.(request), output.(answer)
		return fmt.Sprintf("%s %.20q -> %.20q %d", q.name, q.value, a.text, a.number)
	},
}

// send executes a request. With direct access to the server, compressed values are opened here with open.
func (q request) send(ctx context.Context, c *goredis.Client, open *envelope.Sealer) (answer, error) {
	result, err := c.Do(ctx, q.words()...).Result()
	switch {
	case errors.Is(err, goredis.Nil):
		return answer{none: true}, nil
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		return wrongType, nil
	case err != nil:
		return answer{}, fmt.Errorf("%s %s: %w", q.name, q.key, err)
	}
	switch r := result.(type) {
	case int64:
		return answer{number: r}, nil
	case string:
		if open == nil || !envelope.IsSealed([]byte(r)) {
			return answer{text: r}, nil
		}
		plain, err := open.Open(nil, []byte(r))
		return answer{text: string(plain)}, err
	}
	return answer{}, fmt.Errorf("%s %s answers %T", q.name, q.key, result)
}

func (q request) words() []any {
	command, option, _ := strings.Cut(q.name, " ")
	words := []any{command, q.key}
	switch command {
	case "hget", "hdel":
		words = append(words, q.field)
	case "hset":
		words = append(words, q.field, q.value)
	case "setrange":
		words = append(words, 5, patch)
	case "set", "getset", "append":
		words = append(words, q.value)
	case "pexpireat":
		words = append(words, q.at)
	}
	if option != "" {
		words = append(words, option)
	}
	return words
}
