package dict_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// TestZstdCLI checks that "zstd -D" accepts a saved dictionary, reads Cinch's frames once they have their
// magic number back, and writes frames (with checksum and dictionary ID) that Cinch reads.
func TestZstdCLI(t *testing.T) {
	if testing.Short() {
		t.Skip("runs zstd")
	}
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("no zstd on this machine")
	}
	e := codec.New(codec.Options{})
	for _, a := range algorithms {
		d, err := dict.Train(codectest.Documents(300, 1), dict.TrainOptions{Size: 8 << 10, Algorithm: a})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "d")
		if err := dict.Save(path, d); err != nil {
			t.Fatal(err)
		}
		run := func(input []byte, args ...string) []byte {
			cmd := exec.CommandContext(t.Context(), zstd, append(args, "-q", "-c", "-D", path)...)
			cmd.Stdin = bytes.NewReader(input)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: zstd %v: %v", a, args, err)
			}
			return out
		}
		for _, n := range []int{1, 350, 200_000} {
			value := codectest.JSON(n, 3)
			payload, err := e.Compress(nil, value, codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, d)
			if err != nil {
				t.Fatal(err)
			}
			if out := run(append([]byte(zstdframe.Magic), payload...), "-d"); !bytes.Equal(out, value) {
				t.Errorf("%s, %d bytes: zstd reads our frame wrongly", a, n)
			}
			frame := bytes.TrimPrefix(run(value), []byte(zstdframe.Magic))
			out, err := e.Decompress(nil, frame, codec.Zstd, n, d)
			if err != nil || !bytes.Equal(out, value) {
				t.Errorf("%s, %d bytes: zstd's frame: %v", a, n, err)
			}
		}
	}
}
