package main

import (
	"bytes"
	"io"

	"github.com/splunk/stef/go/otel/otelstef"
	"github.com/splunk/stef/go/pdata/metrics"
	"github.com/splunk/stef/go/pdata/traces"
	"github.com/splunk/stef/go/pkg"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// STEF v0.1.1, as in its own benchmark "Many Batches, Multipart": one stream, flushed after each message,
// compressed by STEF's zstd.
var (
	stefMetrics = []way{
		{"STEF sorted, zstd", func() (func([]byte) ([]byte, error), func([][]byte) (int, error), error) { return stefOfMetrics(true) }},
		{"STEF unsorted, zstd", func() (func([]byte) ([]byte, error), func([][]byte) (int, error), error) { return stefOfMetrics(false) }},
	}
	stefTraces = []way{
		{"STEF sorted, zstd", func() (func([]byte) ([]byte, error), func([][]byte) (int, error), error) { return stefOfTraces(true) }},
		{"STEF unsorted, zstd", func() (func([]byte) ([]byte, error), func([][]byte) (int, error), error) { return stefOfTraces(false) }},
	}
)

var zstdInside = pkg.WriterOptions{Compression: pkg.CompressionZstd}

// taken returns the bytes written since the last call.
func taken(w *pkg.MemChunkWriter, at *int) []byte {
	all := w.Bytes()
	piece := all[*at:]
	*at = len(all)
	return piece
}

func stefOfMetrics(sorted bool) (func([]byte) ([]byte, error), func([][]byte) (int, error), error) {
	out, at := &pkg.MemChunkWriter{}, 0
	w, err := otelstef.NewMetricsWriter(out, zstdInside)
	if err != nil {
		return nil, nil, err
	}
	there := func(message []byte) ([]byte, error) {
		m, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(message)
		if err != nil {
			return nil, err
		}
		if err := metrics.NewOtlpToStef(sorted).Convert(m, w); err != nil {
			return nil, err
		}
		if err := w.Flush(); err != nil {
			return nil, err
		}
		return taken(out, &at), nil
	}
	back := func(pieces [][]byte) (came int, err error) {
		r, err := otelstef.NewMetricsReader(bytes.NewBuffer(bytes.Join(pieces, nil)))
		if err != nil {
			return 0, err
		}
		for {
			m, err := (&metrics.StefToOtlpUnsorted{}).Convert(r, false)
			if err != nil && err != io.EOF {
				return came, err
			}
			came += m.DataPointCount()
			if _, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(m); err != nil {
				return came, err
			}
			if err == io.EOF {
				return came, nil
			}
		}
	}
	return there, back, nil
}

// stefOfTraces decodes spans only to STEF's records: its library does not convert these to OTLP.
func stefOfTraces(sorted bool) (func([]byte) ([]byte, error), func([][]byte) (int, error), error) {
	out, at := &pkg.MemChunkWriter{}, 0
	w, err := otelstef.NewSpansWriter(out, zstdInside)
	if err != nil {
		return nil, nil, err
	}
	convert := traces.OtlpToStefUnsorted{Sorted: sorted}
	there := func(message []byte) ([]byte, error) {
		m, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(message)
		if err != nil {
			return nil, err
		}
		if err := convert.Convert(m, w); err != nil {
			return nil, err
		}
		if err := w.Flush(); err != nil {
			return nil, err
		}
		return taken(out, &at), nil
	}
	back := func(pieces [][]byte) (came int, err error) {
		r, err := otelstef.NewSpansReader(bytes.NewBuffer(bytes.Join(pieces, nil)))
		if err != nil {
			return 0, err
		}
		for {
			if err := r.Read(pkg.ReadOptions{}); err == io.EOF {
				return came, nil
			} else if err != nil {
				return came, err
			}
			came++
		}
	}
	return there, back, nil
}
