package grpccodec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// All zstd output conforms to gRPC's A122, whichever way it was made, and so does the vector (whose name
// tells its writer).
func TestZstdProfile(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, name := range []string{"zstd", "zstd-1", "zstd-3", "zstd-6"} {
		t.Run(name+" as a whole", func(t *testing.T) {
			codectest.Messages(t, func(m []byte) ([]byte, error) { return set.AppendCompress(nil, m, name) })
		})
		c, err := set.Compressor(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name+" as a stream", func(t *testing.T) {
			codectest.Messages(t, func(m []byte) ([]byte, error) {
				var out bytes.Buffer
				w, err := c.Compress(&out)
				if err != nil {
					return nil, err
				}
				for piece := range bytes.Lines(m) { // in pieces of any size
					if _, err := w.Write(piece); err != nil {
						return nil, err
					}
				}
				err = w.Close()
				return out.Bytes(), err
			})
		})
	}
	message, packed := vector(t, "message"), vector(t, "cinch.zstd")
	if err := codectest.OneFrame(packed, len(message)); err != nil {
		t.Error(err)
	}
}

func vector(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Outside the profile: consecutive and skippable frames are read as in RFC 8878, since other libraries have
// sent them; a frame that names a dictionary is an error, and so is a truncated one.
func TestOutsideZstdProfile(t *testing.T) {
	set := grpccodec.NewSet(grpccodec.Options{})
	half, err := set.AppendCompress(nil, []byte("half of a message, "), "zstd")
	if err != nil {
		t.Fatal(err)
	}
	skippable := append(binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 4), "skip"...)
	d := codectest.NewDict(t, codectest.Text(4096, 3))
	sealed, err := codec.New(codec.Options{}).Compress(nil, codectest.Text(300, 3), codec.Setting{Codec: codec.Zstd, Level: 1, Dict: d.Number()}, d)
	if err != nil {
		t.Fatal(err)
	}
	named := append([]byte{0x28, 0xb5, 0x2f, 0xfd, sealed[0] | 1, 7}, sealed[1:]...) // for a single segment the number follows
	for name, test := range map[string]struct {
		packed []byte
		want   string
		err    error
	}{
		"two frames":         {bytes.Repeat(half, 2), "half of a message, half of a message, ", nil},
		"skippable in front": {append(bytes.Clone(skippable), half...), "half of a message, ", nil},
		"skippable after":    {append(bytes.Clone(half), skippable...), "half of a message, ", nil},
		"skippable alone":    {skippable, "", nil},
		"names a dictionary": {named, "", grpccodec.ErrCorrupt},
		"cut off":            {half[:len(half)-1], "", grpccodec.ErrCorrupt},
		"garbage after":      {append(bytes.Clone(half), "garbage"...), "", grpccodec.ErrCorrupt},
	} {
		got, err := set.AppendDecompress(nil, test.packed, "zstd", 1<<20)
		if !errors.Is(err, test.err) || string(got) != test.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		c, _ := set.Compressor("zstd")
		r, err := c.Decompress(bytes.NewReader(test.packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); !errors.Is(err, test.err) || err == nil && string(got) != test.want {
			t.Errorf("%s as a stream: %q, %v", name, got, err)
		}
	}
}
