package library

import (
	"bytes"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// sealed is a value as one language has stored it.
type sealed struct {
	what   string // language and value
	value  []byte
	stored []byte
	dict   []byte
}

// Every language opens the envelopes of every other language, and those of Go, which uses every codec.
func TestAllPairs(t *testing.T) {
	all := sealedByGo(t)
	t.Run("seal", func(t *testing.T) {
		each(t, func(t *testing.T, l language, w *worker) { all = append(all, sealedBy(t, l, w)...) })
	})
	t.Run("open", func(t *testing.T) {
		t.Run("go", func(t *testing.T) {
			check(t, all, func(q question) answer { return opened(t, q) })
		})
		each(t, func(t *testing.T, _ language, w *worker) {
			check(t, all, func(q question) answer { return w.ask(t, q) })
		})
	})
}

func sealedBy(t *testing.T, l language, w *worker) (all []sealed) {
	envelopes := 0
	for dictName, dict := range dictionaries(t) {
		for name, value := range values() {
			a := w.ask(t, question{Op: "seal", Value: value, Level: 3, Dictionary: dict})
			if l.reads {
				if a.Error != "unsupported" {
					t.Fatalf("it only reads, but says %+v: say in the table that it seals", a)
				}
				return nil
			}
			if a.Error != "" {
				t.Errorf("%s, %s: %s", name, dictName, a.Error)
				continue
			}
			if envelope.IsSealed(a.Value) {
				envelopes++
			} else if !bytes.Equal(a.Value, value) || envelope.IsSealed(value) {
				t.Errorf("%s, %s: neither sealed nor the value itself", name, dictName)
			}
			all = append(all, sealed{l.name + ": " + name + ", " + dictName, value, a.Value, dict})
		}
	}
	if envelopes < len(values()) {
		t.Errorf("%d envelopes of %d values, so little was tested", envelopes, len(all))
	}
	return all
}

// settings are a gateway's settings, at least one of each codec.
var settings = []string{"snappy", "s2", "minlz", "lz4", "zstd-1", "zstd-9", "zlib", "gzip"}

func sealedByGo(t *testing.T) (all []sealed) {
	for dictName, dict := range dictionaries(t) {
		for name, value := range values() {
			for _, text := range settings {
				if dict == nil || text == "zstd-1" || text == "zstd-9" {
					all = append(all, sealed{"go " + text + ": " + name + ", " + dictName, value, goSeal(t, text, value, dict), dict})
				}
			}
		}
	}
	return all
}

func goSeal(t *testing.T, text string, value, dict []byte) []byte {
	t.Helper()
	st, err := codec.ParseSetting(text)
	if err != nil {
		t.Fatal(err)
	}
	o := envelope.SealerOptions{}
	if dict != nil {
		h := prepared(t, dict)
		for st.Dict = range h {
			o.Dicts = h
		}
	}
	return envelope.NewSealer(o).Seal(nil, value, st, nil)
}

func check(t *testing.T, all []sealed, open func(question) answer) {
	for _, s := range all {
		q := question{Op: "open", Value: s.stored}
		if s.dict != nil {
			q.Dictionaries = [][]byte{[]byte("one that nothing names"), s.dict}
		}
		if a := open(q); a.Error != "" || !bytes.Equal(a.Value, s.value) {
			t.Errorf("by %s: %d bytes, error %q, of %d", s.what, len(a.Value), a.Error, len(s.value))
		}
	}
}
