package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

// scenario is the content of scenario.json. An argument is a string, or an object that describes the bytes:
// {"v": name of a value}, {"hex": …}, {"concat": […]}, {"saved": name of an earlier reply}, or {"gen":
// "json"|"random"|"repeat", …, "len": n}.
type scenario struct {
	Words  []string            `json:"words"`
	Values map[string]argument `json:"values"`
	Groups map[string][]string `json:"groups"`
	Steps  []json.RawMessage   `json:"steps"`

	saved map[string][]byte
}

// step is one operation; its kind is the field among Cmd, Pipeline, Multi, Block, Subscribe
// and Track that is set.
type step struct {
	Name string `json:"name"`
	Each string `json:"each"` // repeat for each value of a group; "{}" stands for its name
	Resp int    `json:"resp"` // only with this protocol version
	Norm string `json:"norm"` // how to print a reply that differs each time
	Save string `json:"save"`

	Cmd       []argument   `json:"cmd"`
	Pipeline  [][]argument `json:"pipeline"`
	Watch     []string     `json:"watch"`
	Meanwhile [][]argument `json:"meanwhile"`
	Multi     [][]argument `json:"multi"`
	Block     []argument   `json:"block"`
	Then      [][]argument `json:"then"`
	Subscribe string       `json:"subscribe"`
	Publish   []argument   `json:"publish"`
	Track     string       `json:"track"`
	Values    []argument   `json:"values"`
}

type argument struct {
	Text   string     `json:"-"`
	V      string     `json:"v"`
	Hex    string     `json:"hex"`
	Concat []argument `json:"concat"`
	Saved  string     `json:"saved"`
	Gen    string     `json:"gen"`
	Unit   string     `json:"text"`
	Seed   uint32     `json:"seed"`
	Len    int        `json:"len"`
}

func (a *argument) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &a.Text)
	}
	type plain argument
	return json.Unmarshal(b, (*plain)(a))
}

func loadScenario(path string) (*scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &scenario{saved: map[string][]byte{}}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	return s, nil
}

// expand returns the steps for a protocol version, with each "each" expanded.
func (s *scenario) expand(resp int) ([]step, error) {
	var steps []step
	for _, raw := range s.Steps {
		var head step
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, err
		}
		if head.Resp != 0 && head.Resp != resp {
			continue
		}
		names := []string{""}
		if head.Each != "" {
			names = s.Groups[head.Each]
		}
		for _, name := range names {
			var st step
			if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte("{}"), []byte(name)), &st); err != nil {
				return nil, err
			}
			steps = append(steps, st)
		}
	}
	if len(steps) < 60 {
		return nil, fmt.Errorf("a scenario of %d operations", len(steps))
	}
	return steps, nil
}

func (s *scenario) bytes(a argument) []byte {
	switch {
	case a.V != "":
		return s.bytes(s.Values[a.V])
	case a.Concat != nil:
		var out []byte
		for _, part := range a.Concat {
			out = append(out, s.bytes(part)...)
		}
		return out
	case a.Saved != "":
		return s.saved[a.Saved]
	case a.Gen == "repeat":
		unit := []byte(a.Unit)
		if a.Hex != "" {
			unit = mustHex(a.Hex)
		}
		return bytes.Repeat(unit, a.Len/len(unit)+1)[:a.Len]
	case a.Gen == "random":
		rand, out := generator(a.Seed), make([]byte, a.Len)
		for i := range out {
			out[i] = rand.next()
		}
		return out
	case a.Gen == "json":
		return s.json(a)
	case a.Hex != "":
		return mustHex(a.Hex)
	}
	return []byte(a.Text)
}

func (s *scenario) json(a argument) []byte {
	rand, out := generator(a.Seed), []byte("[")
	word := func() string { return s.Words[int(rand.next())%len(s.Words)] }
	for i := 0; len(out) < a.Len; i++ {
		out = fmt.Appendf(out, `{"id":%d,"name":"%s %s","city":"%s","score":%d,"tags":["%s","%s"]},`,
			i, word(), word(), word(), rand.next(), word(), word())
	}
	return out[:a.Len]
}

func (s *scenario) args(in []argument) []any {
	out := make([]any, len(in))
	for i, a := range in {
		out[i] = s.bytes(a)
	}
	return out
}

// generator is a linear congruential generator of bytes, the same in every language.
type generator uint32

func (g *generator) next() byte {
	*g = *g*1664525 + 1013904223
	return byte(*g >> 24)
}

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// show returns the byte-exact text of a reply from go-redis.
func show(x any) string {
	switch x := x.(type) {
	case nil:
		return "nil"
	case error:
		return "!" + x.Error()
	case string:
		return showBytes(x)
	case []any:
		return "[" + strings.Join(showAll(x), ", ") + "]"
	case map[any]any:
		return showPairs(flat(x))
	}
	return fmt.Sprintf("%T:%v", x, x)
}

func showAll(xs []any) []string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = show(x)
	}
	return out
}

func showBytes(s string) string {
	printable := !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f })
	switch {
	case len(s) <= 48 && printable:
		return `"` + s + `"`
	case len(s) <= 24:
		return "hex:" + hex.EncodeToString([]byte(s))
	}
	return fmt.Sprintf("sha256:%x/%d", sha256.Sum256([]byte(s)), len(s))
}

// flat returns the elements of a map or of nested pairs as one list.
func flat(x any) []any {
	var out []any
	switch x := x.(type) {
	case map[any]any:
		for k, v := range x {
			out = append(out, k, v)
		}
	case []any:
		for _, el := range x {
			if pair, ok := el.([]any); ok {
				out = append(out, pair...)
			} else {
				out = append(out, el)
			}
		}
	}
	return out
}

func showPairs(flat []any) string {
	var out []string
	for i := 0; i+1 < len(flat); i += 2 {
		out = append(out, show(flat[i])+"=>"+show(flat[i+1]))
	}
	sort.Strings(out)
	return "{" + strings.Join(out, ", ") + "}"
}

// normalise prints a reply in the way that the step names.
func normalise(norm string, x any) string {
	list, _ := x.([]any)
	switch {
	case norm == "" || isError(x):
		return show(x)
	case norm == "type":
		return fmt.Sprintf("%T", x)
	case norm == "sign":
		if n, ok := x.(int64); ok && n > 0 {
			return "positive"
		}
		return show(x)
	case norm == "count":
		return fmt.Sprint("count ", len(list))
	case norm == "sort":
		out := showAll(list)
		sort.Strings(out)
		return strings.Join(out, ", ")
	case norm == "pairs":
		return showPairs(flat(x))
	case norm == "scan" && len(list) == 2:
		return normalise("sort", list[1])
	case norm == "scanpairs" && len(list) == 2:
		return showPairs(flat(list[1]))
	}
	return "unknown norm " + norm + " for " + show(x)
}

func isError(x any) bool {
	_, ok := x.(error)
	return ok
}
