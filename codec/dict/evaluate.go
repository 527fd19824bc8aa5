package dict

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// Report is the evaluation of a dictionary on values it was not trained on. Bytes are of payloads, without
// envelopes; a value that compression does not make smaller counts uncompressed.
type Report struct {
	Values     int           // number of values
	RawBytes   int           // of all values, uncompressed
	PlainBytes int           // of all values, compressed without the dictionary
	DictBytes  int           // of all values, compressed with it
	Compress   time.Duration // mean per value, with the dictionary
	Decompress time.Duration // mean per value, with the dictionary
}

// Ratio returns raw bytes divided by bytes compressed with the dictionary, 1 if there are none.
func (r Report) Ratio() float64 { return ratio(r.RawBytes, r.DictBytes) }

// PlainRatio returns raw bytes divided by bytes compressed without the dictionary, 1 if there are none.
func (r Report) PlainRatio() float64 { return ratio(r.RawBytes, r.PlainBytes) }

func ratio(raw, compressed int) float64 {
	if compressed == 0 {
		return 1
	}
	return float64(raw) / float64(compressed)
}

// Evaluate compresses the values of heldOut with and without d by s, a setting of zstd in which it sets the
// dictionary number, and decompresses them again. The values must not be among those that d was trained on.
// Without values the error wraps [ErrSamples]; if a value is not restored it wraps codec.ErrCorrupt. Other
// errors are those of e.
func Evaluate(e *codec.Engine, d *codec.Dict, s codec.Setting, heldOut [][]byte) (Report, error) {
	r := Report{Values: len(heldOut)}
	if len(heldOut) == 0 {
		return r, fmt.Errorf("%w: no values to evaluate the dictionary with", ErrSamples)
	}
	s.Dict = d.Number()
	plain := s
	plain.Dict = 0
	var sealed, opened []byte
	var err error
	for _, value := range heldOut {
		if sealed, err = e.Compress(sealed[:0], value, plain, nil); err != nil {
			return r, err
		}
		r.RawBytes += len(value)
		r.PlainBytes += min(len(sealed), len(value))

		start := time.Now()
		if sealed, err = e.Compress(sealed[:0], value, s, d); err != nil {
			return r, err
		}
		compressed := time.Now()
		if opened, err = e.Decompress(opened[:0], sealed, s.Codec, len(value), d); err != nil {
			return r, err
		}
		r.Decompress += time.Since(compressed)
		r.Compress += compressed.Sub(start)
		r.DictBytes += min(len(sealed), len(value))
		if !bytes.Equal(opened, value) {
			return r, fmt.Errorf("%w: a value came back changed with dictionary %08x", codec.ErrCorrupt, d.Number())
		}
	}
	r.Compress /= time.Duration(len(heldOut))
	r.Decompress /= time.Duration(len(heldOut))
	return r, nil
}

// Split divides samples into those to train on and every nth, which is held out. nth must be positive. Both
// results refer to the same bytes as samples.
func Split(samples [][]byte, nth int) (learn, heldOut [][]byte) {
	for i, s := range samples {
		if i%nth == nth-1 {
			heldOut = append(heldOut, s)
		} else {
			learn = append(learn, s)
		}
	}
	return learn, heldOut
}
