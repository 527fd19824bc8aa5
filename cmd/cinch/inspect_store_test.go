package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func vectorFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../envelope/testdata/vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInspectStore(t *testing.T) {
	store := miniredis.RunT(t)
	sealed, value := string(vectorFile(t, "stored/lz4-1-order.json")), vectorFile(t, "values/order.json")
	if err := store.Set("sealed", sealed); err != nil {
		t.Fatal(err)
	}
	store.HSet("hash", "field", sealed)
	if err := store.Set("needs-dictionary", string(vectorFile(t, "stored/extension-1-dict"))); err != nil {
		t.Fatal(err)
	}
	if err := store.DB(3).Set("plain", "text"); err != nil {
		t.Fatal(err)
	}
	url := "redis://" + store.Addr()
	for _, c := range []struct {
		name    string
		o       inspectOptions
		code    int
		out, in string // substrings of the output, of the error
	}{
		{"string", inspectOptions{key: "sealed"}, exitOK, "lz4 (4)", ""},
		{"value", inspectOptions{key: "sealed", raw: true}, exitOK, string(value), ""},
		{"field", inspectOptions{key: "hash", field: "field", raw: true}, exitOK, string(value), ""},
		{"other database", inspectOptions{target: url + "/3", key: "plain"}, exitOK, "not an envelope", ""},
		{"no key", inspectOptions{key: "none"}, exitFailed, "", `no key "none"`},
		{"no field", inspectOptions{key: "hash", field: "none"}, exitFailed, "", `no field "none" of key "hash"`},
		{"a hash without field", inspectOptions{key: "hash"}, exitFailed, "", "is a hash"},
		{"dictionary nowhere", inspectOptions{key: "needs-dictionary"}, exitDictMissing, "dictionary is missing", "missing"},
		{"dictionary in a file", inspectOptions{key: "needs-dictionary", dictFiles: []string{"../../envelope/testdata/vectors/dictionaries/trained.dict"}}, exitOK, "dictionary    ", ""},
	} {
		var out bytes.Buffer
		c.o.out = &out
		if c.o.target == "" {
			c.o.target = url
		}
		err := runInspect(context.Background(), c.o)
		if exitCode(err) != c.code || !strings.Contains(out.String(), c.out) || err != nil && !strings.Contains(err.Error(), c.in) {
			t.Errorf("%s: code %d, %v\n%s", c.name, exitCode(err), err, &out)
		}
	}
}

// A server that requires a password does answer, so the exit code is not "unreachable".
func TestInspectStoreWithoutPassword(t *testing.T) {
	store := miniredis.RunT(t)
	store.RequireAuth("right")
	for url, code := range map[string]int{
		"redis://" + store.Addr():              exitFailed,
		"redis://:wrong@" + store.Addr():       exitFailed,
		"redis://:right@" + store.Addr():       exitFailed, // no such key
		"unix:///no/such/socket":               exitUnreachable,
		"redis://:wrong@" + store.Addr() + "x": exitUsage, // no such port
	} {
		err := runInspect(context.Background(), inspectOptions{target: url, key: "none", out: &bytes.Buffer{}})
		if exitCode(err) != code {
			t.Errorf("%s: %d, %v", url, exitCode(err), err)
		}
		if err != nil && strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: the password is in %q", url, err)
		}
	}
}
