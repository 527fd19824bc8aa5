package pack

import (
	"errors"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/test/testenv"
)

// liar compresses other bytes if a value contains a certain word, as a broken library or bad memory would.
type liar struct{ engine *codec.Engine }

var levelOne = codec.Setting{Codec: codec.Zstd, Level: 1}

func (liar) Name() string { return "liar" }

func (l liar) Compress(dst, src []byte, _ int, d *codec.Dict) ([]byte, error) {
	if i := strings.Index(string(src), "customer 31\""); i >= 0 {
		src = append([]byte(nil), src...)
		src[i] ^= 1
	}
	return l.engine.Compress(dst, src, levelOne, d)
}

func (l liar) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	return l.engine.Decompress(dst, src, codec.Zstd, rawLen, d)
}

// TestFirstMismatchStops checks that a compressed value that does not decompress to the original replaces
// nothing, and that nothing more is replaced afterwards.
func TestFirstMismatchStops(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 1000, 0, 400) // document 1 contains the word
	before := contents(t, c, newSealer(nil))
	o := inProcess(t, server.Addr)
	broken := codec.New(codec.Options{Zstd: liar{codec.New(codec.Options{})}})
	o.Task = &pack.Seal{Policy: zstdPolicy(t), Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: broken})}
	report, err := pack.Run(t.Context(), o)
	if !errors.Is(err, pack.ErrMismatch) || !strings.Contains(err.Error(), `key "string:1"`) {
		t.Fatalf("%v, want ErrMismatch and the key", err)
	}
	sameContents(t, "afterwards", contents(t, c, newSealer(nil)), before)
	if n := int64(sealed(before, c)); n == 1000 || report.Replaced > n {
		t.Errorf("%d replaced, %d sealed", report.Replaced, sealed(before, c))
	}
}
