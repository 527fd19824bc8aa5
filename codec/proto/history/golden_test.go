package history

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

var makeVectors = flag.Bool("make-vectors", false, "write the test vectors that are missing")

// vectors returns sessions whose encoded form is frozen: later releases must read what a release wrote.
func vectors() map[string][][]byte {
	rng := rand.New(rand.NewPCG(8, 8))
	all := map[string][][]byte{"plain": {nil, []byte("short"), []byte("this is no message of protobuf, not at all")}}
	add := func(name string, n int, message func(int) []byte) {
		for i := range n {
			all[name] = append(all[name], message(i))
		}
	}
	add("scrapes", 24, func(i int) []byte { return scrape(i%2, i/2) })
	add("spans", 8, func(i int) []byte { return spans(rng, 10+i) })
	add("anything", 30, func(int) []byte { return anything(rng, 3) })
	add("doubles", 6, odd)
	add("packed", 6, func(i int) []byte { return packed(uint64(i), 12) })
	add("deep", 4, func(i int) []byte { return bytes.Repeat(deep(18+2*i), 2) })
	add("shapes", 3, func(i int) []byte { return manyShapes(i*40, 50) })
	add("full", restartAfter+2, structure)
	add("forgotten", 14, func(i int) []byte { return manyValues(i/2+i%2*3, 9000) })
	add("lists", 14, func(i int) []byte { return manyValues(20+i/2, 3000) })
	add("keys", 12, func(i int) []byte { return manyKeys(i, 2500) })
	add("records", 40, func(i int) []byte { return points(i) })
	add("long-values", 10, func(i int) []byte { return longValues(i/2+i%2*2, 1300) })
	add("mixed", 4, func(int) []byte { return mixed(rng, 400) })
	add("records-in-use", 1, func(int) []byte { return codectest.ForgottenRecords() })
	add("first-after-list", 4, firstAfterList)
	add("key-of-two-fields", 6, keyOfTwoFields)
	return all
}

// vectorLimits holds limits other than the format's, for sessions whose names begin with the key.
// clients/python/tests/test_proto.py has the same ones. These sessions are in a folder of their own.
var vectorLimits = map[string]*limits{"small": &smallLimits, "bytes": &byteLimits}

// smallVectors returns sessions that permanently exceed small tables.
func smallVectors() map[string][][]byte {
	all := map[string][][]byte{}
	for name := range vectorLimits {
		for i, p := range programs {
			all[fmt.Sprint(name, "-", i)] = programMessages([]byte(p), 1<<12)
		}
		all[name+"-records"] = [][]byte{codectest.NestedRecords(1, 60, 4), codectest.NestedRecords(2, 60, 4), codectest.NestedRecords(1, 30, 100)}
		rng := rand.New(rand.NewPCG(1, 5))
		for i := range 8 {
			all[name+"-others"] = append(all[name+"-others"], points(i%9), spans(rng, 20), anything(rng, 3))
		}
	}
	return all
}

// mixed returns a message of labels in many combinations.
func mixed(rng *rand.Rand, n int) (b []byte) {
	for range n {
		var m []byte
		for _, name := range []string{"job", "pod", "zone", "code"} {
			m = bytesField(m, 1, label(name, fmt.Sprint(rng.IntN(6)*rng.IntN(3))))
		}
		b = bytesField(b, 1, m)
	}
	return b
}

func odd(i int) (b []byte) {
	all := []float64{math.Copysign(0, -1), 0, 2.5, 1e15, 1e15 + 1, math.NaN(), -0.001, 1e-300, math.MaxFloat64, 123456.789}
	for j := range 60 {
		b = fixed64Field(b, 1, math.Float64bits(all[(i*j*j+j)%len(all)]))
		b = fixed64Field(b, 2, math.Float64bits(float64(i*j)/1000))
		b = fixed32Field(b, 3, uint32(i*j*-70000))
	}
	return b
}

// packed returns packed numbers of each wire type.
func packed(at, n uint64) (b []byte) {
	for i := range n {
		m := bytesField(nil, 1, packedOf(pbwire.Fixed64Type, i, i*i+at, i*i*i, 1<<20+i))
		m = bytesField(m, 2, packedOf(pbwire.Fixed64Type, math.Float64bits(float64(i+at)/4), math.Float64bits(float64(i)/100), math.Float64bits(5)))
		m = bytesField(m, 3, packedOf(pbwire.Fixed32Type, i, i+1, 7*i+at, 1<<15))
		m = bytesField(m, 4, packedOf(pbwire.VarintType, 1<<50, 1<<50+i, 1<<50-i, i))
		b = bytesField(b, 1, m)
	}
	return b
}

// structure returns a message whose fields are new each time.
func structure(i int) []byte {
	m := varintField(nil, 1+i, 1)
	m = fixed32Field(m, 2+i, 5)
	return bytesField(bytesField(nil, 1+i%60, m), 1+i%60, m)
}

// manyValues returns a message of labels. A few such messages exceed the kept values.
func manyValues(of, n int) (b []byte) {
	for i := range n {
		m := bytesField(nil, 1, label("id", fmt.Sprint(of*n+i)))
		b = bytesField(b, 1, bytesField(m, 1, label("kind", fmt.Sprint(i%10))))
	}
	return b
}

// longValues returns a message of records of about 2 KiB. A few such messages exceed the kept bytes.
func longValues(of, n int) (b []byte) {
	for i := range n {
		text := strings.Repeat(fmt.Sprint("value ", of*n+i, "; "), 500)
		b = bytesField(b, 1, varintField(bytesField(nil, 1, text[:1750+i%200]), 2, 1))
	}
	return b
}

// manyKeys returns a message of labels with a key of their own each, with values of two recurring keys, and
// of one key that occurs only at first: so keys are forgotten before their values, blocks become empty, and
// one partly empty.
func manyKeys(at, n int) (b []byte) {
	for i := range n {
		m := bytesField(bytesField(nil, 1, label("job", "all")), 1, label(fmt.Sprint(at*n+i), "value"))
		m = bytesField(m, 1, label("kind", fmt.Sprint(i, at)))
		if at == 0 && i%100 == 0 {
			m = bytesField(m, 1, label("first", fmt.Sprint(i)))
		}
		b = bytesField(b, 1, m)
	}
	return b
}

// firstAfterList returns a message whose first list is guessed from the second message on, and whose second one is
// new: the first value of a guessed list is not the node's first.
func firstAfterList(at int) (b []byte) {
	for i, id := range []int{0, 1 + at} {
		m := bytesField(nil, 1, fmt.Sprint("value ", id))
		m = bytesField(m, 1, fmt.Sprint("other ", id))
		b = bytesField(b, 1, varintField(m, 2, uint64(2*at+i)))
	}
	return b
}

// keyOfTwoFields returns a message of values that begin with the same text in one of two fields: the text that was
// last the key of their block is that of the other field's node.
func keyOfTwoFields(at int) (b []byte) {
	for i := range 12 {
		m := bytesField(nil, 1+i%2, "the same text")
		b = bytesField(b, 1, bytesField(m, 3, fmt.Sprint((at*5+i*i)%17)))
	}
	return b
}

// points returns a message of metrics with points, whose order, numbers and runs change: records in records.
func points(at int) (b []byte) {
	for resource := range 3 - at%7/6 {
		scope := bytesField(nil, 1, label("scope", fmt.Sprint(resource)))
		for metric := range 6 {
			metric = (metric + at/9) % 6
			var gauge []byte
			for point := range 4 + (at+metric)%5/4 {
				m := fixed64Field(nil, 2, 1_790_000_000_000_000_000)
				m = fixed64Field(m, 3, 1_790_000_000_000_000_000+uint64(at)*15e9)
				m = fixed64Field(m, 4, math.Float64bits(float64(at*point)/10))
				m = varintField(m, 6, uint64(at*at*point<<(at%3*7)))
				m = bytesField(m, 8, packedOf(pbwire.VarintType, uint64(at), 2, 3, uint64(point), 5, 6, 7, 8))
				gauge = bytesField(gauge, 1, bytesField(m, 7, label("cpu", fmt.Sprint(point))))
			}
			m := bytesField(bytesField(nil, 1, fmt.Sprint("metric.", metric)), 3, "By")
			scope = bytesField(scope, 2, varintField(bytesField(m, 5, gauge), 9, uint64(at%4/3)))
		}
		all := bytesField(nil, 1, bytesField(nil, 1, label("host", fmt.Sprint("host-", resource))))
		b = bytesField(b, 1, bytesField(all, 2, scope))
	}
	return b
}

const vectorLimit = 1 << 22

// TestVectors reads the vectors. A file has the output of a session, each message preceded by its length as a varint.
func TestVectors(t *testing.T) {
	testVectors(t, "testdata", vectors())
	testVectors(t, filepath.Join("testdata", "limits"), smallVectors())
}

func testVectors(t *testing.T, dir string, all map[string][][]byte) {
	if *makeVectors {
		writeVectors(t, dir, all)
	}
	for name, messages := range all {
		sent := readVector(t, dir, name)
		prefix, _, _ := strings.Cut(name, "-")
		var r Reader
		r.limits = vectorLimits[prefix]
		for i, want := range messages {
			n, size := binary.Uvarint(sent)
			got, err := r.Append(nil, sent[size:size+int(n)], vectorLimit)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, message %d: %d bytes, %v", name, i, len(got), err)
			}
			sent = sent[size+int(n):]
		}
		if len(sent) > 0 {
			t.Errorf("%s: %d bytes are left", name, len(sent))
		}
	}
}

func readVector(t *testing.T, dir, name string) []byte {
	f, err := os.Open(filepath.Join(dir, name+".session.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func writeVectors(t *testing.T, dir string, all map[string][][]byte) {
	for name, messages := range all {
		path := filepath.Join(dir, name+".session.gz")
		if _, err := os.Stat(path); err == nil {
			continue // frozen
		}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		prefix, _, _ := strings.Cut(name, "-")
		var w Writer
		w.limits = vectorLimits[prefix]
		for _, m := range messages {
			one := w.Append(nil, m)
			_, _ = z.Write(append(binary.AppendUvarint(nil, uint64(len(one))), one...))
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
