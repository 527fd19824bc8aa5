package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"sync"
	"time"
)

// kv is a Protocol of servers that store texts by key. Requests and answers are lines: "set KEY TEXT", "get
// KEY" and "del KEY".
type kv struct {
	servers [targets]*kvServer
}

func newKV() *kv {
	p := &kv{}
	for i := range p.servers {
		p.servers[i] = newKVServer()
	}
	return p
}

func (p *kv) Reader() Reader { return &kvReader{} }

func (p *kv) Dial(_ context.Context, t *Target) (Conn, error) { return p.servers[t.place], nil }

func (p *kv) ScratchWrite(i int) *Operation {
	return &Operation{Kind: Write, Name: "set", Request: fmt.Appendf(nil, "set scratch text%d", i)}
}

func (p *kv) ScratchRead() *Operation {
	return &Operation{Kind: Read, Name: "get", Request: []byte("get scratch")}
}

func (p *kv) ScratchClean() *Operation {
	return &Operation{Kind: Write, Name: "del", Request: []byte("del scratch")}
}

// CheckData compares all texts of the servers as one table.
func (p *kv) CheckData(context.Context, DataCheck, ...*Target) ([]TableState, error) {
	state := TableState{Name: "texts", State: TableEqual}
	if !maps.Equal(p.servers[control].texts, p.servers[test].texts) {
		state.State = TableDiffers
	}
	return []TableState{state}, nil
}

// kvServer may have a fault at its n-th request of one kind, counted from 1.
type kvServer struct {
	mu    sync.Mutex
	texts map[string]string
	count map[string]int // of requests, by kind

	wrong int                  // get that is answered wrongly
	loses int                  // set that is answered but not executed
	dies  int                  // set at which the server dies
	took  func() time.Duration // latency of a request; nil: a microsecond
}

func newKVServer() *kvServer { return &kvServer{texts: map[string]string{}, count: map[string]int{}} }

var errDead = errors.New("connection reset by peer")

func (s *kvServer) do(request string) (answer string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, rest, _ := strings.Cut(request, " ")
	key, text, _ := strings.Cut(rest, " ")
	s.count[kind]++
	n := s.count[kind]
	if kind == "get" {
		if n == s.wrong {
			return "wrong", nil
		}
		return s.texts[key], nil
	}
	if kind == "del" {
		delete(s.texts, key)
		return "done", nil
	}
	if s.dies > 0 && n >= s.dies {
		return "", errDead
	}
	if n != s.loses {
		s.texts[key] = text
	}
	return "done", nil
}

func (s *kvServer) Send(ops []*Operation, _ time.Time, answered func(int, Answer)) error {
	for i, op := range ops {
		answer, err := s.do(string(op.Request))
		if err != nil {
			return err
		}
		a := kvAnswer(answer)
		if s.took != nil {
			a.Took = s.took()
		}
		answered(i, a)
	}
	return nil
}

func (s *kvServer) Close() error { return nil }

func kvAnswer(line string) Answer {
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	return Answer{Digest: h.Sum64(), Missing: line == "", Took: time.Microsecond}
}

// kvReader expects whole lines, one at a time.
type kvReader struct{ asked []string }

var errNoLine = errors.New("neither set nor get")

func (r *kvReader) Request(b []byte, _ time.Time) error {
	line := string(bytes.TrimSpace(b))
	if !strings.HasPrefix(line, "set ") && !strings.HasPrefix(line, "get ") {
		return errNoLine
	}
	r.asked = append(r.asked, line)
	return nil
}

func (r *kvReader) Reply(b []byte, _ time.Time) ([]*Operation, error) {
	fields := strings.Fields(r.asked[0])
	op := &Operation{Kind: Read, Name: fields[0], Keys: fields[1:2], Request: []byte(r.asked[0]), Production: kvAnswer(string(bytes.TrimSpace(b)))}
	if fields[0] == "set" {
		op.Kind = Write
	}
	r.asked = r.asked[1:]
	return []*Operation{op}, nil
}

func (r *kvReader) Held() int64 { return 0 }
