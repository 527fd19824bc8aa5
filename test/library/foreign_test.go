package library

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
)

// These envelopes hold values that other libraries had compressed. No language library of Cinch writes
// those formats, so each must report them as unknown, and damaged ones as damaged.
func TestForeignEnvelopesAreUnknown(t *testing.T) {
	var vectors []struct{ Name, Stored, Dictionary string }
	if err := json.Unmarshal(vectorFile(t, "foreign.json"), &vectors); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, _ language, w *worker) {
		for _, v := range vectors {
			q := question{Op: "open", Value: vectorFile(t, v.Stored)}
			if v.Dictionary != "" {
				q.Dictionaries = [][]byte{vectorFile(t, v.Dictionary)}
			}
			if a := w.ask(t, q); a.Error != "unknown codec" {
				t.Errorf("%s: %d bytes, error %q", v.Name, len(a.Value), a.Error)
			}
			for name, stored := range withoutFormat(t, q.Value) {
				q.Value = stored
				if a := w.ask(t, q); a.Error != "damaged" {
					t.Errorf("%s, %s: %d bytes, error %q", v.Name, name, len(a.Value), a.Error)
				}
			}
		}
	})
}

// withoutFormat returns envelopes whose first word names no format.
func withoutFormat(t *testing.T, stored []byte) map[string][]byte {
	t.Helper()
	h, err := envelope.ParseHeader(stored)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for name, word := range map[string]string{"another word": "\x02\x01\x00\x00", "no format": "\x01\x00\x00\x00", "reserved": "\x01\x01\x00\x01"} {
		all[name] = bytes.Clone(stored)
		copy(all[name][h.Len-4:], word)
	}
	return all
}
