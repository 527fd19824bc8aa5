package inspect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

func TestInspect(t *testing.T) {
	value := []byte(strings.Repeat("a value of an application; ", 20))
	d, err := codec.NewDict(value)
	if err != nil {
		t.Fatal(err)
	}
	s := envelope.NewSealer(envelope.SealerOptions{MaxOpen: 10_000, Dicts: one{d}})
	tagged := s.Seal(nil, value, codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil)
	forged := append([]byte(nil), tagged...)
	forged[7] ^= 1 // the tag's first byte
	sealed := s.Seal(nil, value, codec.Setting{Codec: codec.LZ4}, nil)
	differs := append([]byte(nil), sealed...)
	differs[7] ^= 1 // the checksum's first byte
	unknown := envelope.Header{Version: 1, Codec: 9, RawLen: 5}.Append(nil)
	large := envelope.Header{Version: 1, Codec: codec.LZ4, RawLen: 10_001}.Append(nil)
	needs := envelope.Header{Version: 1, Codec: codec.Zstd, HasDict: true, Dict: 0x0A0B0C0D, RawLen: 5}.Append(nil)
	for _, c := range []struct {
		name     string
		stored   []byte
		opens    bool
		problem  string
		checksum string
		text     string
	}{
		{"sealed", sealed, true, "", "ok", "lz4 (4)"},
		{"plain", value, true, "", "", "not an envelope"},
		{"empty", nil, true, "", "", `value begins  ""`},
		{"checksum", differs, false, Damaged, "differs", "no: damaged envelope: checksum"},
		{"cut", sealed[:len(sealed)-1], false, Damaged, "not checked", "not checked"},
		{"magic", sealed[:3], false, Damaged, "", "header can't be read"},
		{"codec", unknown, false, UnknownCodec, "not checked", "codec(9) (9)"},
		{"large", large, false, TooLarge, "not checked", "over the limit"},
		{"tag", tagged, true, "", "ok", "tag           "},
		{"forged", forged, false, Damaged, "differs", "no: damaged envelope: tag"},
		{"dictionary", needs, false, DictionaryMissing, "not checked", "is missing: 0a0b0c0d"},
	} {
		r := Inspect(s, c.stored)
		checksum := ""
		if r.Header != nil {
			checksum = r.Header.ChecksumResult + r.Header.TagResult
		}
		if r.Readable != c.opens || r.Problem != c.problem || checksum != c.checksum || (r.Err == nil) != c.opens {
			t.Errorf("%s: %+v", c.name, r)
		}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), c.text) {
			t.Errorf("%s: %v\n%s", c.name, err, &text)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !r.Readable && r.Value != nil {
			t.Errorf("%s: a value that doesn't open", c.name)
		}
	}
}

func TestInspectOtherTrouble(t *testing.T) {
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: down{}})
	stored := envelope.Header{Version: 1, Codec: codec.Zstd, HasDict: true, Dict: 1, RawLen: 5}.Append(nil)
	if r := Inspect(s, stored); r.Problem != Other || !errors.Is(r.Err, errDown) {
		t.Errorf("%+v", r)
	}
}

var errDown = errors.New("store is down")

type down struct{}

type one struct{ d *codec.Dict }

func (o one) Dictionary(number uint32) (*codec.Dict, error) {
	if number != o.d.Number() {
		return nil, envelope.ErrDictMissing
	}
	return o.d, nil
}

func (down) Dictionary(uint32) (*codec.Dict, error) { return nil, errDown }

func TestPreview(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `""`},
		{"12345678", `"12345678"`},
		{"123456789", `"12345678"…`},
		{"1234567é", `"1234567"…`},     // cut within é
		{"12345日", `"12345日"`},         // fits
		{"123456日本", `"123456"…`},      // cut within 日
		{"line\nnext", `"line\nnex"…`}, // white space prints
		{"\x00\x01", "hex 00 01"},
		{"\x00\x01\x02\x03\x04", "hex 00 01 02 03…"},
		{"abc\xffdef", "hex 61 62 63 ff…"},
	} {
		if got := Preview([]byte(c.in), 8); got != c.want {
			t.Errorf("%q: %s, want %s", c.in, got, c.want)
		}
	}
}
