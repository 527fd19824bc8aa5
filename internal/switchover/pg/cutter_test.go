package pg

import (
	"bytes"
	"testing"
)

// However the bytes arrive, the pieces together are the same bytes, messages to parse come complete or with
// their first Most bytes, and little is buffered.
func TestCutterAtEveryCut(t *testing.T) {
	stream := Append(nil, DataRow, bytes.Repeat([]byte{7}, 40))
	stream = Append(stream, ReadyForQuery, []byte{'I'})
	stream = Append(stream, ErrorResponse, bytes.Repeat([]byte{8}, 100))
	stream = Append(stream, ReadyForQuery, []byte{'T'})
	read := [256]bool{ReadyForQuery: true, ErrorResponse: true}
	for size := 1; size <= len(stream); size++ {
		c := Cutter{Read: &read, Most: 24}
		var kept, out []byte
		firsts, lasts := "", ""
		for at := 0; at < len(stream); at += size {
			kept = append(kept, stream[at:min(at+size, len(stream))]...)
			for {
				p, ok, err := c.Next(kept)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if p.First {
					firsts += string(p.Type)
					if read[p.Type] && !p.Last && len(p.Raw) < c.Most {
						t.Errorf("by %d: %c begins with %d bytes", size, p.Type, len(p.Raw))
					}
				}
				if p.Last {
					lasts += string(p.Type)
				}
				out = append(out, p.Raw...)
				kept = kept[len(p.Raw):]
			}
			if len(kept) >= c.Most {
				t.Errorf("by %d: %d bytes are kept", size, len(kept))
			}
		}
		if !bytes.Equal(out, stream) || firsts != "DZEZ" || lasts != firsts || !c.Between() {
			t.Errorf("by %d: %q %q, %d of %d bytes", size, firsts, lasts, len(out), len(stream))
		}
	}
	c := Cutter{Read: &read, Most: 24}
	if _, _, err := c.Next([]byte{'Z', 0, 0, 0, 3}); err == nil {
		t.Error("a length of 3 is one")
	}
}
