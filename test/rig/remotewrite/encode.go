package remotewrite

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Label is a name and a value.
type Label struct{ Name, Value string }

// Series is one series with its sample. Labels are sorted by name, as
// Prometheus sends them.
type Series struct {
	Labels    []Label
	Value     float64
	Timestamp int64 // in ms
}

func sortLabels(labels []Label) {
	slices.SortFunc(labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
}

// AppendRequest appends a prometheus.WriteRequest that holds the series:
//
//	WriteRequest { repeated TimeSeries timeseries = 1 }
//	TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2 }
//	Label        { string name = 1; string value = 2 }
//	Sample       { double value = 1; int64 timestamp = 2 }
func AppendRequest(dst []byte, series []Series) []byte {
	var one, part []byte
	for _, s := range series {
		one = one[:0]
		for _, l := range s.Labels {
			part = appendBytes(part[:0], 1, l.Name)
			part = appendBytes(part, 2, l.Value)
			one = appendBytes(one, 1, string(part))
		}
		one = appendBytes(one, 2, string(appendSample(part[:0], s)))
		dst = appendBytes(dst, 1, string(one))
	}
	return dst
}

// appendSample omits a zero value, as proto3 does.
func appendSample(dst []byte, s Series) []byte {
	if bits := math.Float64bits(s.Value); bits != 0 {
		dst = append(dst, 1<<3|1)
		dst = binary.LittleEndian.AppendUint64(dst, bits)
	}
	dst = append(dst, 2<<3)
	return binary.AppendUvarint(dst, uint64(s.Timestamp))
}

func appendBytes(dst []byte, field byte, s string) []byte {
	dst = append(dst, field<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
