package telecom

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// saved returns the share of the documents' bytes that a setting saves when it compresses them one by one.
func saved(t *testing.T, setting string, documents [][]byte) float64 {
	t.Helper()
	st, err := codec.ParseSetting(setting)
	if err != nil {
		t.Fatal(err)
	}
	s := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	raw, stored := 0, 0
	for _, d := range documents {
		raw += len(d)
		stored += len(s.Seal(nil, d, st, nil))
	}
	return 1 - float64(stored)/float64(raw)
}

// The documents must compress like the published ones, or measurements on them could not be compared with the
// published figures.
func TestCalibration(t *testing.T) {
	g := NewGenerator(1)
	var all [][]byte
	bytes := 0
	for n := range 2000 {
		all = append(all, g.Append(nil, Measured(n), n))
		bytes += len(all[n])
	}
	if mean := bytes / len(all); mean < 3100 || mean > 3220 {
		t.Errorf("%d bytes each, want 3160", mean)
	}
	lz4, zlib := saved(t, "lz4", all), saved(t, "zlib-6", all)
	t.Logf("%d bytes each, lz4 saves %.4f, zlib-6 %.4f, zstd-3 %.4f", bytes/len(all), lz4, zlib, saved(t, "zstd-3", all))
	if lz4 < 0.39 || lz4 > 0.43 {
		t.Errorf("lz4 saves %.3f, want 0.41 give or take 0.02", lz4)
	}
	if zlib < 0.59 || zlib > 0.63 {
		t.Errorf("zlib-6 saves %.3f, want 0.61 give or take 0.02", zlib)
	}
}

func TestDocuments(t *testing.T) {
	a, b, other := NewGenerator(7), NewGenerator(7), NewGenerator(8)
	seen := map[string]bool{}
	for n := range 200 {
		source := Measured(n)
		doc := a.Append(nil, source, n)
		if !json.Valid(doc) {
			t.Fatalf("no JSON: %s", doc)
		}
		if !bytes.Equal(doc, b.Append(nil, source, n)) {
			t.Fatal("the same seed makes others")
		}
		if bytes.Equal(doc, other.Append(nil, source, n)) {
			t.Fatal("another seed makes the same")
		}
		if seen[string(doc)] {
			t.Fatal("twice the same")
		}
		seen[string(doc)] = true
		if Training(source) || !Training(Trained(n)) {
			t.Fatal("what is measured was trained on")
		}
	}
}
