package policy

import (
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

func TestMessages(t *testing.T) {
	snappy := codec.Setting{Codec: codec.Snappy}
	p, err := NewMessages([]MessageRule{
		{Name: "logs", Space: "app.log*", Setting: codec.Setting{}},
		{Name: "finds", Space: "app.*", Commands: []string{"find", "get*"}, Direction: Reply, MinSize: 100, MaxSize: 200, Setting: snappy},
		{Setting: zstd3},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		space, command string
		d              Direction
		size           int
		want           string
	}{
		{"app.logs", "find", Reply, 150, ""},
		{"app.users", "find", Reply, 99, "rule-3"},
		{"app.users", "find", Reply, 100, "finds"},
		{"app.users", "getMore", Reply, 200, "finds"},
		{"app.users", "getMore", Reply, 201, "rule-3"},
		{"app.users", "find", Request, 150, "rule-3"},
		{"app.users", "insert", Reply, 150, "rule-3"},
		{"other.users", "find", Reply, 150, "rule-3"},
	} {
		got := ""
		if r := p.Lookup(MessageAddress{Space: []byte(c.space), Command: []byte(c.command), Direction: c.d, Size: c.size}); r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	p.Off = true
	if p.Lookup(MessageAddress{Direction: Reply}) != nil {
		t.Error("off, and covers something")
	}
	if allocs := testing.AllocsPerRun(100, func() {
		(&Messages{rules: p.rules}).Lookup(MessageAddress{Space: []byte("app.users"), Command: []byte("find"), Direction: Reply, Size: 150})
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// Host and content type narrow a rule like the other conditions.
func TestMessagesOfHTTP(t *testing.T) {
	p, err := NewMessages([]MessageRule{
		{Name: "logs", Host: "logs.*", Types: []string{"application/json", "text/*"}, Setting: zstd3},
		{Name: "all", Space: "/api/*", Setting: zstd3},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ host, kind, path, want string }{
		{"logs.example", "application/json", "/", "logs"},
		{"logs.example", "text/plain", "/", "logs"},
		{"logs.example", "image/png", "/", ""},
		{"other", "text/plain", "/", ""},
		{"other", "text/plain", "/api/v1", "all"},
	} {
		got := ""
		if r := p.Lookup(MessageAddress{Space: []byte(c.path), Host: []byte(c.host), Type: []byte(c.kind), Direction: Request}); r != nil {
			got = r.Name
		}
		if got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestMessagesRefuse(t *testing.T) {
	for _, r := range []MessageRule{
		{Direction: 4},
		{MinSize: -1},
		{MinSize: 2, MaxSize: 1},
		{MinGain: 1},
		{Auto: true, Setting: zstd3},
		{Setting: codec.Setting{Codec: codec.Zstd, Level: 99}},
	} {
		if _, err := NewMessages([]MessageRule{r}); !errors.Is(err, ErrRule) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
