package sampled

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// historyWriter compresses each message with the earlier ones as history.
type historyWriter struct{ codec.StreamWriter }

func ways(t testing.TB) *Methods {
	t.Helper()
	e, set := codec.New(codec.Options{}), grpccodec.NewSet(grpccodec.Options{})
	begin := func() (Writer, error) {
		s, err := e.StreamWriter(3, 20)
		return historyWriter{s}, err
	}
	return &Methods{
		Open: func(m Message) ([]byte, error) {
			switch m.Coding {
			case "":
				return m.Bytes, nil
			case "gzip":
				return set.AppendDecompress(nil, m.Bytes, m.Coding, 1<<20)
			}
			return nil, errors.New("unknown")
		},
		Compress:  set.AppendCompress,
		Each:      []Method{{Setting: "zstd-3"}, {Setting: "cinch-proto", Protobuf: true}},
		Sequences: []Sequence{{Method{Setting: PairPlain}, begin}, {Method{PairColumns, true}, begin}},
	}
}

func text(i int) []byte {
	var b []byte
	for j := range 300 {
		b = fmt.Appendf(b, "line %d has a number that changes, %d\n", j, i*j*7919%10007)
	}
	return b
}

func ratios(m Measured) map[string]float64 {
	all := map[string]float64{}
	for _, e := range m.Estimates {
		all[e.Setting] = e.Ratio
	}
	return all
}

// A history saves more than compressing each message by itself.
func TestMeasure(t *testing.T) {
	var s Samples
	for i := range 200 {
		s.Add(Name{"POST /a", "request"}, Message{Bytes: text(i)})
	}
	s.Add(Name{"POST /b", "request"}, Message{Bytes: text(1), Protobuf: true})
	s.Add(Name{"POST /c", "reply"}, Message{Bytes: text(1)[:100], Coding: "br", Protobuf: true})
	s.Count(Name{"POST /c", "reply"}, 20)
	all := s.Measure(ways(t))
	if len(all) != 3 || all[0].Method != "POST /a" || all[0].Messages != 200 || all[0].SampleMessages != maxKept {
		t.Fatalf("%+v", all)
	}
	got := ratios(all[0])
	if got["zstd-3"] < 2 || got[PairPlain] <= got["zstd-3"] || got[PairColumns]+got["cinch-proto"] != 0 {
		t.Errorf("%v", got)
	}
	if got := ratios(all[1]); len(got) != 2 || got["cinch-proto"] < 1 {
		t.Errorf("one message: %v", got)
	}
	if c := all[2]; len(c.Estimates) != 0 || c.Messages != 2 || c.Bytes != 120 || c.Direction != "reply" {
		t.Errorf("%+v", c)
	}
}

// Kinds beyond the limit share a name. A method for Protocol Buffers is tried on them only if all are Protocol Buffers,
// whichever message came last.
func TestMixedMessagesAreNotProtobufs(t *testing.T) {
	var s Samples
	shared := Name{string(make([]byte, maxMethod+1)), "request"}
	for i := range 10 {
		s.Add(shared, Message{Bytes: text(i), Protobuf: i%2 == 1})
	}
	m := s.Measure(ways(t))[0]
	if got := ratios(m); m.Method != Others || got["zstd-3"] == 0 || got[PairColumns]+got["cinch-proto"] != 0 {
		t.Errorf("%s: %v", m.Method, got)
	}
}

// Estimates compare with the bytes received, so for messages that were received compressed the ratio is lower than for
// the same messages uncompressed.
func TestMessagesThatCameCompressed(t *testing.T) {
	var s Samples
	w := ways(t)
	var plain, came int
	for i := range 20 {
		b, err := w.Compress(nil, text(i), "gzip")
		if err != nil {
			t.Fatal(err)
		}
		plain, came = plain+len(text(i)), came+len(b)
		s.Add(Name{"/a/B", "request"}, Message{b, "gzip", true})
	}
	m := s.Measure(w)[0]
	if m.Bytes != uint64(came) {
		t.Errorf("%d bytes are counted, %d came", m.Bytes, came)
	}
	if got := ratios(m)["zstd-3"]; got < 1 || got > float64(plain)/float64(came) {
		t.Errorf("zstd after gzip: %v", got)
	}
}

// However large messages are when decompressed, the bytes decompressed are limited, for each kind and in all.
func TestMeasuringIsBounded(t *testing.T) {
	var s Samples
	for i := range 12 {
		for range minKept {
			s.Add(Name{fmt.Sprint("/a/", i), "request"}, Message{make([]byte, 1+i), "x", true})
		}
	}
	opens, atOnce := 0, map[int]int{}
	all := s.Measure(&Methods{Open: func(m Message) ([]byte, error) {
		opens++
		atOnce[len(m.Bytes)]++
		return make([]byte, 4<<20), nil
	}})
	if len(all) != 12 || opens > measuredBytes/(4<<20)+1 {
		t.Errorf("%d kinds, %d messages opened", len(all), opens)
	}
	for n, times := range atOnce {
		if times > measuredOfKind/(4<<20)+1 {
			t.Errorf("kind %d: %d messages are opened", n, times)
		}
	}
}

// Clients can't exceed the limits on kinds and on bytes.
func TestBounds(t *testing.T) {
	var s Samples
	for i := range 10 * maxKinds {
		s.Add(Name{fmt.Sprint("POST /", i), "request"}, Message{Bytes: []byte("x")})
	}
	s.Add(Name{string(make([]byte, maxMethod+1)), "request"}, Message{})
	if n := len(s.kinds); n != maxKinds+1 {
		t.Errorf("%d kinds", n)
	}
	large := bytes.Repeat([]byte("x"), MaxMessage)
	for i := range 40 {
		name := Name{fmt.Sprint("POST /", i), "request"}
		s.Add(name, Message{Bytes: large})
		s.Add(name, Message{Bytes: append(large, 'x')})
	}
	kept := 0
	for _, k := range s.kinds {
		kept += k.kept
		if len(k.last) > maxKept || len(k.last) > minKept && k.kept > kindBytes {
			t.Errorf("%d messages of %d bytes are kept", len(k.last), k.kept)
		}
	}
	if s.bytes > maxBytes || s.Bytes() != kept {
		t.Errorf("%d bytes are kept, %d counted", kept, s.bytes)
	}
}

// When the samples are full, those of the largest kind make room for new ones of any kind.
func TestFullSamplesMakeRoom(t *testing.T) {
	var s Samples
	large := bytes.Repeat([]byte("x"), MaxMessage)
	for range minKept {
		s.Add(Name{"POST /a", "request"}, Message{Bytes: large})
		s.Add(Name{"POST /b", "request"}, Message{Bytes: large})
	}
	if s.bytes != maxBytes {
		t.Fatalf("%d bytes do not fill the samples", s.bytes)
	}
	for i, path := range []string{"a", "b", "new", "new"} {
		name := Name{"POST /" + path, "request"}
		m := append([]byte{byte(i)}, large[:MaxMessage-1]...)
		s.Add(name, Message{Bytes: m})
		k := s.kinds[name]
		if n := len(k.last); n == 0 || !bytes.Equal(k.last[n-1].Bytes, m) {
			t.Errorf("message %d is not kept", i)
		}
		if s.bytes > maxBytes {
			t.Errorf("%d bytes are kept", s.bytes)
		}
	}
	if n := len(s.kinds[Name{"POST /new", "request"}].last); n != 2 {
		t.Errorf("%d messages of a new kind", n)
	}
}
