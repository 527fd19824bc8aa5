package samples

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("all/a.json", `{"a":1}`)
	write("all/deeper/b", "b\n")
	write("all/empty", "")
	write("all/lines.jsonl", "{\"l\":1}\n\n  {\"l\":2}  \n{\"l\":3}")
	write("huge", strings.Repeat("x", MaxSampleBytes+1))
	got, skipped, err := Load([]string{filepath.Join(dir, "all"), filepath.Join(dir, "huge"), filepath.Join(dir, "all", "a.json")})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte(`{"a":1}`), []byte("b\n"), []byte(`{"l":1}`), []byte(`{"l":2}`), []byte(`{"l":3}`), []byte(`{"a":1}`)}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || skipped != 2 {
		t.Errorf("%q, %d skipped", got, skipped)
	}
	if Bytes(got) != 7+2+7+7+7+7 {
		t.Errorf("%d bytes", Bytes(got))
	}
	long := strings.Repeat("x", MaxSampleBytes)
	for name, lines := range map[string]string{
		"skips.jsonl": "a\n" + long + "x\nb\n" + long + long + "x\n", "fits.jsonl": "a\n" + long + "\nb\n" + long, "ends.jsonl": "a\nb\n" + long + "x",
	} {
		write(name, lines)
		got, skipped, err := Load([]string{filepath.Join(dir, name)})
		want := map[string][2]int{"skips.jsonl": {2, 2}, "fits.jsonl": {4, 0}, "ends.jsonl": {2, 1}}[name]
		if err != nil || len(got) != want[0] || skipped != want[1] {
			t.Errorf("%s: %d samples, %d skipped, %v", name, len(got), skipped, err)
		}
	}
	write("long.jsonl", long+"x")
	for _, name := range []string{"none", "all/empty", "long.jsonl"} {
		if _, _, err := Load([]string{filepath.Join(dir, name)}); err == nil {
			t.Errorf("%s gave samples", name)
		}
	}
}

func TestShuffle(t *testing.T) {
	numbers := func() [][]byte {
		all := make([][]byte, 1000)
		for i := range all {
			all[i] = fmt.Appendf(nil, "%d ", i)
		}
		return all
	}
	a, b := numbers(), numbers()
	Shuffle(a)
	Shuffle(b)
	if !bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) {
		t.Error("another order the second time")
	}
	if bytes.Equal(bytes.Join(a, nil), bytes.Join(numbers(), nil)) {
		t.Error("the order is the old one")
	}
	seen := map[string]bool{}
	for _, s := range a {
		seen[string(s)] = true
	}
	if len(seen) != len(a) {
		t.Errorf("%d of %d are left", len(seen), len(a))
	}
}
