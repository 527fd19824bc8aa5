package http

import (
	"bytes"
	"errors"
	"testing"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// The length that a snappy body declares takes memory only if it is possible for the body.
func TestSnappyLength(t *testing.T) {
	g := start(t, "127.0.0.1:1", nil)
	most := make([]byte, 1<<20)
	if b, err := g.common.coder.open(snappy.Encode(nil, most), "snappy", &memory.Grant{}); err != nil || !bytes.Equal(b, most) {
		t.Error(err)
	}
	account := &memory.Grant{}
	if _, err := g.common.coder.open([]byte{0xff, 0xff, 0xff, 0x0f, 0, 0}, "snappy", account); !errors.Is(err, codec.ErrCorrupt) || account.Held() > 0 {
		t.Errorf("%v, %d bytes are held", err, account.Held())
	}
}
