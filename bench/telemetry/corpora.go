package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// testdata is the directory of the corpora in STEF's repository.
const testdata = "benchmarks/testdata"

// corpus is one of STEF's files: length-prefixed messages, compressed with zstd.
type corpus struct {
	name  string
	file  string
	parts bool // the file's single message is split into parts
	unit  string
	kinds [][]uint64 // paths, as field numbers, of the counted units
	peers []peer
}

// Paths of data points and spans in opentelemetry-proto: resource, scope, metric, one of five kinds, point;
// resource, scope, span.
var (
	pointsAt = [][]uint64{{1, 2, 2, 5, 1}, {1, 2, 2, 7, 1}, {1, 2, 2, 9, 1}, {1, 2, 2, 10, 1}, {1, 2, 2, 11, 1}}
	spansAt  = [][]uint64{{1, 2, 2}}
)

// The peers' figures are from STEF's docs/benchmarks.html ("Size - Many Batches, Multipart", and for Hipster
// Shop's metrics "One Large Batch"), read in 2026. They are for zstd, without the network.
var corpora = []corpus{
	{name: "host metrics", file: "hostandcollector-otelmetrics.zst", unit: "point", kinds: pointsAt, peers: []peer{{"OTel-Arrow, zstd", 6.3}, {"STEF sorted, zstd", 1.2}, {"STEF unsorted, zstd", 1.8}}},
	{name: "astronomy metrics", file: "astronomy-otelmetrics.zst", unit: "point", kinds: pointsAt, peers: []peer{{"OTel-Arrow, zstd", 14.9}, {"STEF sorted, zstd", 4.3}, {"STEF unsorted, zstd", 5.3}}},
	{name: "hipster metrics", file: "hipstershop-otelmetrics.zst", parts: true, unit: "point", kinds: pointsAt, peers: []peer{{"OTel-Arrow, zstd", 3.5}, {"STEF sorted, zstd", 1.4}, {"STEF unsorted, zstd", 4}}},
	{name: "astronomy traces", file: "astronomy-oteltraces.zst", unit: "span", kinds: spansAt, peers: []peer{{"STEF sorted, zstd", 41.5}, {"STEF unsorted, zstd", 41.5}}},
	{name: "hipster traces", file: "hipstershop-oteltraces.zst", parts: true, unit: "span", kinds: spansAt, peers: []peer{{"STEF sorted, zstd", 25.4}, {"STEF unsorted, zstd", 27.9}}},
}

var errNotOTLP = errors.New("not OTLP, or not in the corpora's format")

func (c corpus) load(dir string) (payload, error) {
	p := payload{name: c.name, unit: c.unit, kind: c.kind(), peers: c.peers}
	packed, err := os.ReadFile(filepath.Join(dir, c.file))
	if err != nil {
		return p, err
	}
	if len(packed) == 0 {
		return p, os.ErrNotExist
	}
	z, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return p, err
	}
	defer z.Close()
	all, err := io.ReadAll(z)
	if err != nil {
		return p, err
	}
	p.messages, err = c.messages(all)
	if err != nil {
		return p, err
	}
	return p, p.count(c.kinds)
}

// kind returns OTLP's name for the corpus's data.
func (c corpus) kind() string {
	if c.unit == "span" {
		return "traces"
	}
	return "metrics"
}

// count counts the fields at the ends of paths.
func (p *payload) count(ways [][]uint64) error {
	for _, m := range p.messages {
		for _, path := range ways {
			n, ok := count(m, path)
			if !ok {
				return errNotOTLP
			}
			p.units += n
		}
	}
	return nil
}

// partBytes is the approximate size of the parts of one long message.
const partBytes = 8 << 20

func (c corpus) messages(all []byte) (out [][]byte, err error) {
	for len(all) > 0 {
		if len(all) < 4 {
			return nil, errNotOTLP
		}
		n := binary.BigEndian.Uint32(all)
		if all = all[4:]; uint64(n) > uint64(len(all)) {
			return nil, errNotOTLP
		}
		out = append(out, all[:n])
		all = all[n:]
	}
	if c.parts && len(out) == 1 {
		return cutParts(out[0])
	}
	return out, nil
}

// cutParts splits a message between its resources.
func cutParts(all []byte) (out [][]byte, err error) {
	from, at := 0, 0
	for at < len(all) {
		f, ok := next(all[at:])
		if !ok {
			return nil, errNotOTLP
		}
		if at+f.size-from > partBytes && at > from {
			out, from = append(out, all[from:at]), at
		}
		at += f.size
	}
	return append(out, all[from:]), nil
}

// field is one encoded field of a message.
type field struct {
	number  uint64
	content []byte // of wire type 2
	size    int
}

// next parses the first field of b.
func next(b []byte) (f field, ok bool) {
	tag, n := binary.Uvarint(b)
	if n <= 0 {
		return f, false
	}
	f.number, f.size = tag>>3, n
	switch tag & 7 {
	case 0:
		_, n = binary.Uvarint(b[n:])
		f.size += n
		return f, n > 0
	case 1:
		f.size += 8
	case 5:
		f.size += 4
	case 2:
		size, more := binary.Uvarint(b[n:])
		if more <= 0 || size > uint64(len(b)-n-more) {
			return f, false
		}
		f.content = b[n+more:][:size]
		f.size += more + int(size)
	default:
		return f, false
	}
	return f, f.size <= len(b)
}

// count returns the number of fields at the end of a path.
func count(b []byte, path []uint64) (sum int, ok bool) {
	for len(b) > 0 {
		f, ok := next(b)
		if !ok {
			return 0, false
		}
		b = b[f.size:]
		switch {
		case f.number != path[0]:
		case len(path) == 1:
			sum++
		default:
			n, ok := count(f.content, path[1:])
			if !ok {
				return 0, false
			}
			sum += n
		}
	}
	return sum, true
}
