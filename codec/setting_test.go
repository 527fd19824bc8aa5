package codec_test

import (
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

func TestParseSetting(t *testing.T) {
	for text, want := range map[string]codec.Setting{
		"raw":              {},
		"lz4":              {Codec: codec.LZ4},
		"lz4-9":            {Codec: codec.LZ4, Level: 9},
		"s2-3":             {Codec: codec.S2, Level: 3},
		"zstd":             {Codec: codec.Zstd},
		"zstd-3":           {Codec: codec.Zstd, Level: 3},
		"zstd-22":          {Codec: codec.Zstd, Level: 22},
		"zstd@0a1b2c3d":    {Codec: codec.Zstd, Dict: 0x0a1b2c3d},
		"zstd-19@00000001": {Codec: codec.Zstd, Level: 19, Dict: 1},
		"gzip-6":           {Codec: codec.Gzip, Level: 6},
	} {
		got, err := codec.ParseSetting(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
}

func TestParseSettingRefuses(t *testing.T) {
	for _, text := range []string{
		"", "-", "@", "ZSTD", "zstd-", "zstd-0", "zstd-03", "zstd-+3", "zstd--3", "zstd-23", "zstd-3-4",
		"zstd@", "zstd@0a1b2c3", "zstd@0a1b2c3d4", "zstd@0A1B2C3D", "zstd@00000000", "zstd@+a1b2c3d", "zstd@0a1b2c3d@1",
		"zstd-3 ", " zstd", "raw-1", "raw@00000001", "lz4@00000001", "lz4-10", "snappy-4", "brotli", "codec(9)",
	} {
		s, err := codec.ParseSetting(text)
		if !errors.Is(err, codec.ErrSetting) && !errors.Is(err, codec.ErrUnknownCodec) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
		if s != (codec.Setting{}) {
			t.Errorf("%q: %+v beside an error", text, s)
		}
	}
}

func TestParseMessageSetting(t *testing.T) {
	for text, want := range map[string]codec.Setting{
		"cinch-proto":     {Codec: codec.Proto},
		"cinch-proto-raw": {Codec: codec.Proto, Level: codec.Stored},
		"zstd-3":          {Codec: codec.Zstd, Level: 3},
		"raw":             {},
	} {
		got, err := codec.ParseMessageSetting(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v, prints as %q", text, got, err, got)
		}
		if got.IsProto() != (got.Codec == codec.Proto) {
			t.Errorf("%q is one of cinch-proto: %v", text, got.IsProto())
		}
		if _, err := codec.ParseSetting(text); (err == nil) == got.IsProto() {
			t.Errorf("%q as the setting of a value: %v", text, err)
		}
	}
	for _, text := range []string{"cinch-proto-1", "cinch-proto--1", "cinch-proto-", "cinch-proto-raw@00000001", "raw-raw", "zstd--1", "cinch"} {
		if s, err := codec.ParseMessageSetting(text); err == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestIDNames(t *testing.T) {
	for id := codec.Raw; id.Known(); id++ {
		got, err := codec.ParseID(id.String())
		if err != nil || got != id {
			t.Errorf("%d is %q, which is %d, %v", id, id, got, err)
		}
	}
	if s := codec.ID(15).String(); s != "codec(15)" { // the highest number that fits in an envelope
		t.Errorf("an unknown number prints as %q", s)
	}
}

// FuzzParseSetting checks that text that parses is printed unchanged, and is valid.
func FuzzParseSetting(f *testing.F) {
	for _, text := range []string{"raw", "lz4", "zstd-3", "zstd-3@0a1b2c3d", "zstd-03", "s2-2@00000001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := codec.ParseSetting(text)
		if err != nil {
			return
		}
		if s.String() != text {
			t.Errorf("%q parses and prints as %q", text, s)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%q parses: %v", text, err)
		}
	})
}
