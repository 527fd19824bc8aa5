package dict_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
)

func TestSaveLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "orders.dict")
	for name, d := range codectest.Dicts(t) {
		if err := dict.Save(path, d); err != nil {
			t.Fatal(err)
		}
		onDisk, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(onDisk, d.Content()) {
			t.Errorf("%s: the file is not the content: %v", name, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		loaded, err := dict.LoadHash(path, d.Hash())
		if err != nil || loaded.Number() != d.Number() {
			t.Errorf("%s: %v", name, err)
		}
		if err := dict.Save(path, d); err != nil {
			t.Errorf("%s: again: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSaveKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	a := codectest.NewDict(t, codectest.JSON(1000, 1))
	b := codectest.NewDict(t, codectest.JSON(1000, 2))
	if err := dict.Save(path, a); err != nil {
		t.Fatal(err)
	}
	if err := dict.Save(path, b); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another dictionary: %v", err)
	}
	if _, err := dict.LoadHash(path, a.Hash()); err != nil {
		t.Errorf("the first is gone: %v", err)
	}
	if err := dict.Save(filepath.Join(path, "x"), b); err == nil {
		t.Error("saved below a file")
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := dict.Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for name, content := range map[string][]byte{"empty": nil, "long": make([]byte, codec.MaxDictLen+1)} {
		if _, err := dict.Load(write(name, content)); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := codectest.NewDict(t, codectest.JSON(1000, 1))
	flipped := bytes.Clone(d.Content())
	flipped[500] ^= 1
	if _, err := dict.LoadHash(write("flipped", flipped), d.Hash()); !errors.Is(err, dict.ErrHash) {
		t.Errorf("a bit flipped: %v", err)
	}
}

func TestSet(t *testing.T) {
	var s dict.Set
	if _, ok := s.Get(1); ok || len(s.All()) > 0 {
		t.Error("an empty set holds something")
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			d := codectest.NewDict(t, codectest.JSON(100, uint64(i%10)))
			if err := s.Add(d); err != nil {
				t.Error(err)
			}
			if got, ok := s.Get(d.Number()); !ok || got.Hash() != d.Hash() {
				t.Error("added, and not there")
			}
		})
	}
	wg.Wait()
	all := s.All()
	if len(all) != 10 {
		t.Errorf("%d dictionaries, want 10", len(all))
	}
	for i, d := range all[1:] {
		if d.Number() <= all[i].Number() {
			t.Error("not in order")
		}
	}
}
