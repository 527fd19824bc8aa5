package sampled

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

func same(b []byte, _ string) ([]byte, error) { return b, nil }

var coders = bodies.Coders{Engine: codec.New(codec.Options{}), Codecs: grpccodec.NewSet(grpccodec.Options{})}

func text(i int) []byte {
	var b []byte
	for j := range 300 {
		b = fmt.Appendf(b, "line %d has a number that changes, %d\n", j, i*j*7919%10007)
	}
	return b
}

// A history saves more than compression of each body, and both less than nothing.
func TestMeasure(t *testing.T) {
	var s Samples
	for i := range 20 {
		s.Saw("POST /a", text(i), "", false)
	}
	s.Saw("POST /b", text(1), "", true)
	all := s.Measure(coders, same)
	if len(all) != 2 || all[0].Method != "POST /a" || all[0].Messages != 20 || all[0].SampleMessages != lastOnes {
		t.Fatalf("%+v", all)
	}
	ratio := map[string]float64{}
	for _, e := range all[0].Estimates {
		ratio[e.Setting] = e.Ratio
	}
	if ratio["zstd-3"] < 2 || ratio[pairPlain] <= ratio["zstd-3"] || ratio[pairColumns] != 0 {
		t.Errorf("%v", ratio)
	}
	if n := len(all[1].Estimates); n != len(byBody) {
		t.Errorf("one body has %d estimates", n)
	}
}

// Clients can't make it keep more than is allowed, of kinds or of bytes.
func TestBounds(t *testing.T) {
	var s Samples
	for i := range 10 * maxKinds {
		s.Saw(fmt.Sprint("POST /", i), []byte("x"), "", false)
	}
	if n := len(s.kinds); n != maxKinds+1 {
		t.Errorf("%d kinds", n)
	}
	large := bytes.Repeat([]byte("x"), maxBody)
	for i := range 40 {
		s.Saw(fmt.Sprint("POST /", i), large, "", false)
		s.Saw(fmt.Sprint("POST /", i), append(large, 'x'), "", false)
	}
	if s.bytes > maxBytes {
		t.Errorf("%d bytes are kept", s.bytes)
	}
}
