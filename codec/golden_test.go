package codec_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

var update = flag.Bool("update", false, "add golden payloads that are missing; existing ones are never changed")

// TestGolden decompresses payloads that earlier versions wrote. The files are frozen: testdata/golden/value
// is the content of all others, whose names begin with the codec's name.
func TestGolden(t *testing.T) {
	e := codec.New(codec.Options{})
	d := codectest.Dicts(t)["trained by go"]
	if *update {
		addGolden(t, e, d)
	}
	for id := codec.Raw; id.Known(); id++ {
		if _, err := os.Stat("testdata/golden/" + id.String() + ".payload"); err != nil {
			t.Errorf("%s has no frozen payload: go test -run TestGolden -update . adds it", id)
		}
	}
	value := read(t, "testdata/golden/value")
	files, err := filepath.Glob("testdata/golden/*.payload")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d golden payloads, %v", len(files), err)
	}
	for _, file := range files {
		name, rest, _ := strings.Cut(filepath.Base(file), ".")
		id, err := codec.ParseID(name)
		if err != nil {
			t.Fatal(err)
		}
		var with *codec.Dict
		if strings.HasPrefix(rest, "dict") {
			with = d
		}
		out, err := e.Decompress(nil, read(t, file), id, len(value), with)
		if err != nil || !bytes.Equal(out, value) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func addGolden(t *testing.T, e *codec.Engine, d *codec.Dict) {
	t.Helper()
	value := codectest.JSON(900, 42)
	add := func(name string, b []byte, err error) {
		path := "testdata/golden/" + name
		if _, missing := os.Stat(path); err == nil && missing != nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("value", value, nil)
	for id := codec.Raw; id.Known(); id++ {
		b, err := e.Compress(nil, value, codec.Setting{Codec: id}, nil)
		add(id.String()+".payload", b, err)
	}
	b, err := e.Compress(nil, value, codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, d)
	add("zstd.dict.payload", b, err)
}
