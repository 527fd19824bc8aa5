package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

var update = flag.Bool("update", false, "write missing files of testdata/vectors; existing ones are frozen and stay")

const vectorDir = "testdata/vectors"

// vector is an entry of testdata/vectors/index.json: a stored value, and the value that it opens to or the
// class of its error. Files are relative to the index.
type vector struct {
	Name       string `json:"name"`
	Stored     string `json:"stored"`
	Value      string `json:"value,omitempty"`
	Dictionary string `json:"dictionary,omitempty"` // the only one available when it is opened
	MaxRaw     int    `json:"max_raw,omitempty"`    // 0: the default
	Error      string `json:"error,omitempty"`
}

func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	all := readIndex(t)
	opened, refused := 0, 0
	codecs := map[codec.ID]bool{}
	for _, v := range all {
		if v.Error == "" {
			opened++
			if h, err := ParseHeader(readVectorFile(t, v.Stored)); err == nil {
				codecs[h.Codec] = true
			}
		} else {
			refused++
		}
		for name, engine := range engines() {
			t.Run(v.Name+"/"+name, func(t *testing.T) { checkVector(t, v, engine) })
		}
	}
	for id := codec.Raw; id.Known(); id++ {
		if !codecs[id] {
			t.Errorf("no vector opens %s: name its levels in engineSettings, then go test -run TestVectors -update .", id)
		}
	}
	if opened < 240 || refused < 103 {
		t.Errorf("%d vectors to open and %d to refuse are fewer than were ever frozen", opened, refused)
	}
}

// engines returns engines by the name of their zstd: pure Go, and libzstd with cgo.
var engines = sync.OnceValue(func() map[string]*codec.Engine {
	all := map[string]*codec.Engine{"go": codec.New(codec.Options{})}
	if native, ok := libzstd.New(); ok {
		all[native.Name()] = codec.New(codec.Options{Zstd: native})
	}
	return all
})

func checkVector(t *testing.T, v vector, engine *codec.Engine) {
	if uint64(longest) < MaxHeaderRawLen && (strings.HasPrefix(v.Name, "refuse-32-gib") || strings.HasSuffix(v.Name, "longest-header")) {
		t.Skip("its length is no int on 32 bits, which is refused as ErrHeader")
	}
	o := SealerOptions{Engine: engine, MaxOpen: v.MaxRaw}
	if v.Dictionary != "" {
		o.Dicts = newDictSet(t, readVectorFile(t, v.Dictionary))
	}
	stored := readVectorFile(t, v.Stored)
	if v.Error == class(codec.ErrUnknownCodec) {
		if id := codec.ID(stored[len(Magic)] & 0x0F); id.Known() {
			t.Skipf("frozen for readers from before %s had its number", id)
		}
	}
	got, err := NewSealer(o).Open(nil, stored)
	if v.Error != "" {
		if err == nil || class(err) != v.Error {
			t.Fatalf("%v, want %q", err, v.Error)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := readVectorFile(t, v.Value); !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, not the %d of %s", len(got), len(want), v.Value)
	}
}

// Every file in the directory is named by the index.
func TestVectorsAreAllListed(t *testing.T) {
	named := map[string]bool{"index.json": true, "foreign.json": true, "README.md": true}
	for _, v := range readForeignIndex(t) {
		named[v.Stored], named[v.Content], named[v.Dictionary] = true, true, true
	}
	for _, v := range readIndex(t) {
		named[v.Stored], named[v.Value], named[v.Dictionary] = true, true, true
	}
	err := filepath.WalkDir(vectorDir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(vectorDir, path)
		if err == nil && !e.IsDir() && !named[filepath.ToSlash(name)] {
			t.Errorf("%s is in no vector", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readVectorFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readIndex(t *testing.T) []vector {
	t.Helper()
	var all []vector
	if err := json.Unmarshal(readVectorFile(t, "index.json"), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// writeVectors adds missing vectors. It neither overwrites nor remakes existing ones: encoders may change
// between versions, vectors may not.
func writeVectors(t *testing.T) {
	t.Helper()
	var index []vector
	if _, err := os.Stat(filepath.Join(vectorDir, "index.json")); err == nil {
		index = readIndex(t)
	}
	for _, m := range makeVectors(t) {
		at := slices.IndexFunc(index, func(v vector) bool { return v.Name == m.Name })
		if at >= 0 {
			if index[at] != m.vector {
				t.Fatalf("%s is frozen as %+v, not %+v", m.Name, index[at], m.vector)
			}
			continue
		}
		stored := m.make(t)
		writeNew(t, m.Stored, stored)
		index = append(index, m.vector)
	}
	slices.SortFunc(index, func(a, b vector) int { return strings.Compare(a.Name, b.Name) })
	lines := make([]string, len(index))
	for i, v := range index {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = "  " + string(b)
	}
	text := fmt.Sprintf("[\n%s\n]\n", strings.Join(lines, ",\n"))
	if err := os.WriteFile(filepath.Join(vectorDir, "index.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeNew writes a file, or checks that it exists with the same content.
func writeNew(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join(vectorDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		if !bytes.Equal(readVectorFile(t, name), b) {
			t.Fatalf("%s is frozen with other content", name)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

// existingVectorFile returns the file's content, nil if it doesn't exist.
func existingVectorFile(name string) []byte {
	b, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		return nil
	}
	return b
}
