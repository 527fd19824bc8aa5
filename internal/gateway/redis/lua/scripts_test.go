package lua

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
)

func TestScriptsAreCompact(t *testing.T) {
	for name, text := range map[string]string{
		"Peek": Peek, "PeekField": PeekField, "Guard": Guard, "GuardRead": GuardRead, "GuardField": GuardField,
		"Compare": Compare, "CompareWatched": CompareWatched, "Sort": Sort, "SortWatched": SortWatched,
		"Escape": Escape, "Inflate": Inflate, "SealedFields": SealedFields, "prologue": prologue,
	} {
		if text == "" || strings.Contains(text, "--") || strings.Contains(text, "\n") || strings.Contains(text, "  ") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if !strings.Contains(Sort, "put(3") || strings.Contains(SortWatched, "put(3") {
		t.Error("SortWatched puts weights back")
	}
}

func TestCompact(t *testing.T) {
	got := compact(`local function f(k, v) return k ..' a = b'.. v, #k + 1, not v, {k = "x y"} end`)
	want := `local function f(k,v)return k..' a = b'..v,#k+1,not v,{k="x y"}end`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestComposeKeepsShebangAndLines(t *testing.T) {
	body := "#!lua flags=no-writes\nreturn 1\nreturn 2"
	text := string(Compose([]byte(body)))
	if want := "#!lua flags=no-writes\n" + prologue + "return 1\nreturn 2"; text != want {
		t.Errorf("got %q", text)
	}
	if text := Compose([]byte("#!lua")); !bytes.Equal(text, []byte("#!lua"+prologue)) {
		t.Errorf("got %q", text)
	}
}

func TestCalls(t *testing.T) {
	b := func(words ...string) (list [][]byte) {
		for _, w := range words {
			list = append(list, []byte(w))
		}
		return list
	}
	known := []Known{{Sealed: []byte("S"), Value: []byte("v")}}
	for name, test := range map[string]struct{ got, want [][]byte }{
		"peek":     {CallPeek("EVAL_RO", "x", []byte("k"), 0, b("STRLEN", "k")), b("EVAL_RO", "x", "1", "k", envelope.Magic, "-1", "STRLEN", "k")},
		"guard":    {CallGuard("x", b("k", "l"), known, b("APPEND", "k", "w")), b("EVAL", "x", "2", "k", "l", envelope.Magic, "1", "S", "v", "APPEND", "k", "w")},
		"inflate":  {CallInflate(b("k", "h"), b("h"), known), b("EVAL", Inflate, "3", "k", "h", "h", "2", "S", "v")},
		"escape":   {CallEscape(b("k"), nil), b("EVAL", Escape, "1", "k", envelope.Magic, "1")},
		"in hash":  {CallEscape(b("k"), b("p")), b("EVAL", Escape, "2", "k", "k", envelope.Magic, "1", "p")},
		"fields":   {CallSealedFields([]byte("h"), 5), b("EVAL", SealedFields, "1", "h", envelope.Magic, "10")},
		"composed": {CallComposed("EVAL", []byte("x"), b("1", "k"), b("p"), true, false), b("EVAL", "x", "1", "k", envelope.Magic, "p", "1", "1", "0")},
		"sort": {
			CallSort("x", b("k"), []byte("w_*"), []byte("d"), []bool{true, false}, known, b("SORT", "k"), b("SORT", "k", "STORE", "d")),
			b("EVAL", "x", "1", "k", envelope.Magic, "w_*", "kd", "10", "1", "S", "v", "2", "SORT", "k", "SORT", "k", "STORE", "d"),
		},
	} {
		if got, want := bytes.Join(test.got, []byte{0}), bytes.Join(test.want, []byte{0}); !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
