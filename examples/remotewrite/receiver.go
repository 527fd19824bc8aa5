package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/codec"
)

// receiver keeps all samples that it receives.
type receiver struct {
	mu       sync.Mutex
	requests int
	samples  map[int][]sample // by the label "series"
	total    int
}

type sample struct {
	at    uint64 // ms
	value float64
}

var engine = codec.New(codec.Options{})

// maxRequest limits a request, in bytes, to far more than Prometheus sends.
const maxRequest = 64 << 20

// ServeHTTP handles a WriteRequest.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := r.take(req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) take(req *http.Request) error {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRequest))
	if err != nil {
		return err
	}
	if coding := req.Header.Get("Content-Encoding"); coding != "snappy" {
		return fmt.Errorf("unexpected Content-Encoding %q, expected snappy", coding)
	}
	n, _ := binary.Uvarint(body) // the block format begins with the decompressed length
	plain, err := engine.Decompress(nil, body, codec.Snappy, int(min(n, maxRequest)), nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	return fields(plain, func(n protowire.Number, b []byte) error {
		if n != 1 {
			return nil
		}
		return r.series(b)
	})
}

// series parses a TimeSeries: labels are field 1, samples field 2.
func (r *receiver) series(b []byte) error {
	id := -1
	return fields(b, func(n protowire.Number, b []byte) error {
		switch {
		case n == 1:
			name, text := label(b)
			if name == "series" {
				id, _ = strconv.Atoi(text)
			}
		case n == 2 && id >= 0:
			if s := sampleOf(b); !math.IsNaN(s.value) { // NaN is the stale marker sent when the target is down
				r.samples[id] = append(r.samples[id], s)
				r.total++
			}
		}
		return nil
	})
}

func label(b []byte) (name, value string) {
	_ = fields(b, func(n protowire.Number, b []byte) error {
		if n == 1 {
			name = string(b)
		} else {
			value = string(b)
		}
		return nil
	})
	return name, value
}

func sampleOf(b []byte) (s sample) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if b = b[max(size, 0):]; size < 0 {
			return s
		}
		switch {
		case n == 1 && kind == protowire.Fixed64Type:
			bits, size := protowire.ConsumeFixed64(b)
			s.value, b = math.Float64frombits(bits), b[max(size, 0):]
		case n == 2 && kind == protowire.VarintType:
			at, size := protowire.ConsumeVarint(b)
			s.at, b = at, b[max(size, 0):]
		default:
			return s
		}
	}
	return s
}

var errFormat = errors.New("not a WriteRequest")

// fields calls f for each bytes field of a message.
func fields(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errFormat
		}
		b = b[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
				return errFormat
			}
			b = b[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return errFormat
		}
		if err := f(n, value); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// complete returns an error unless each sample has arrived once, in order and with its value.
func (r *receiver) complete(e *exporter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range e.series {
		got := r.samples[i]
		if len(got) != e.most {
			return fmt.Errorf("series %d has %d of %d samples", i, len(got), e.most)
		}
		for n, s := range got {
			if s.value != value(i, n+1) || n > 0 && s.at <= got[n-1].at {
				return fmt.Errorf("series %d, sample %d: %v at %d", i, n, s.value, s.at)
			}
		}
	}
	return nil
}
