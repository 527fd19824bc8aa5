package library

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// vector is an element of envelope/testdata/vectors/index.json.
type vector struct {
	Name       string `json:"name"`
	Stored     string `json:"stored"`
	Value      string `json:"value"`
	Dictionary string `json:"dictionary"`
	MaxRaw     int    `json:"max_raw"`
	Error      string `json:"error"`
}

// hostile is an envelope that must be refused, with its name.
type hostile struct {
	name string
	question
	class string // expected error class; "": the same result as Go
}

// maxGrowth limits a worker's memory for envelopes within the limit of 32 MiB: the values, the text of
// questions and answers, and garbage that has not been collected yet.
const maxGrowth = 200 << 20

// Every language opens and refuses the same envelopes as Go, and uses no more memory than the limit allows.
func TestVectorsAndHostileEnvelopes(t *testing.T) {
	all := append(append(frozen(t), cut(t)...), bombs(t)...)
	each(t, func(t *testing.T, _ language, w *worker) {
		w.ask(t, question{Op: "open", Value: []byte("so that all of it is loaded")})
		before := testenv.ProcessMemory(t, w.cmd.Process.Pid, "VmHWM")
		for _, h := range all {
			h.check(t, w)
		}
		if grown := testenv.ProcessMemory(t, w.cmd.Process.Pid, "VmHWM") - before; grown > maxGrowth {
			t.Errorf("it took %d MiB more", grown>>20)
		}
	})
}

func (h hostile) check(t *testing.T, w *worker) {
	t.Helper()
	want := opened(t, h.question)
	if h.class != want.Error {
		t.Fatalf("%s: Go says %q, not %q", h.name, want.Error, h.class)
	}
	got := w.ask(t, h.question)
	if got.Error != want.Error || want.Error == "" && !bytes.Equal(got.Value, want.Value) {
		t.Errorf("%s: %d bytes, error %q; Go says %d bytes, error %q", h.name, len(got.Value), got.Error, len(want.Value), want.Error)
	}
}

// frozen returns all vectors, including those that can be opened.
func frozen(t *testing.T) (all []hostile) {
	var vectors []vector
	if err := json.Unmarshal(vectorFile(t, "index.json"), &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		q := question{Op: "open", Value: vectorFile(t, v.Stored), MaxRaw: v.MaxRaw}
		if v.Error == "unknown codec" && codec.ID(q.Value[3]&15).Known() {
			continue // frozen for readers older than the codec's number
		}
		if v.Dictionary != "" {
			q.Dictionaries = [][]byte{vectorFile(t, v.Dictionary)}
		}
		all = append(all, hostile{v.Name, q, vectorClass(v.Error)})
	}
	return all
}

// vectorClass maps a vector's error to one of the workers' coarser classes.
func vectorClass(text string) string {
	switch text {
	case "", "dictionary missing", "unknown codec", "too large":
		return text
	}
	return "damaged"
}

// cut returns truncated envelopes of every codec, with make full at each byte.
func cut(t *testing.T) (all []hostile) {
	add := func(name string, stored []byte, dictionaries ...[]byte) {
		for n := 3; n < len(stored); n += codectest.Amount(5, 5, 1) {
			all = append(all, hostile{name + ", cut", question{Op: "open", Value: stored[:n], Dictionaries: dictionaries}, "damaged"})
		}
	}
	value, dict := append(readings(200), readings(200)...), readings(8000)
	for _, text := range settings {
		add(text, goSeal(t, text, value, nil))
	}
	add("with a dictionary", goSeal(t, "zstd-3", value, dict), dict)
	return all
}

// bombs returns envelopes that declare or expand to more than allowed.
func bombs(t *testing.T) []hostile {
	payload := goSeal(t, "zstd-3", readings(2000), nil)[11:]
	snappy := append(binary.AppendUvarint(nil, 1<<30), 0, 'x')
	open := func(name string, stored []byte, class string) hostile {
		return hostile{name, question{Op: "open", Value: stored}, class}
	}
	return []hostile{
		open("31 MiB declared", rawEnvelope(codec.Zstd, 31<<20, payload), "damaged"),
		open("31 MiB declared by a codec in plain code", rawEnvelope(codec.LZ4, 31<<20, payload), "damaged"),
		open("2^60 declared", rawEnvelope(codec.Zstd, 1<<60, payload), "damaged"),
		open("2^34 declared", rawEnvelope(codec.Zstd, 1<<34, payload), "too large"),
		open("a frame of 1 GiB", rawEnvelope(codec.Zstd, 1000, rleFrame(8192)), "damaged"),
		open("a frame of 1 GiB, 31 MiB declared", rawEnvelope(codec.Zstd, 31<<20, rleFrame(8192)), "damaged"),
		open("two frames", rawEnvelope(codec.Zstd, 2<<17, append(append(rleFrame(1), 0x28, 0xB5, 0x2F, 0xFD), rleFrame(1)...)), "damaged"),
		open("a stream of 256 MiB", rawEnvelope(codec.Zlib, 1000, deflated(t, 256<<20)), "damaged"),
		open("a block that says 1 GiB", rawEnvelope(codec.Snappy, 1000, snappy), "damaged"),
	}
}

// envelope returns an envelope with the given header and payload. Its checksum is wrong.
func rawEnvelope(id codec.ID, rawLen uint64, payload []byte) []byte {
	b := append([]byte{}, envelope.Magic...)
	b = binary.AppendUvarint(append(b, 1<<4|byte(id), 0), rawLen)
	return append(append(b, 1, 2, 3, 4), payload...)
}

// rleFrame returns a zstd frame without magic and content size. Each of its blocks repeats one byte 128 KiB
// times.
func rleFrame(blocks int) []byte {
	const length, rle, last = 128 << 10, 1 << 1, 1
	b := []byte{0, 7 << 3} // a window of 128 KiB
	for i := range blocks {
		head := uint32(length<<3 | rle)
		if i == blocks-1 {
			head |= last
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	return b
}

func deflated(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	for range n >> 20 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
