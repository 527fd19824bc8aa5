package main

import (
	"github.com/klauspost/compress/zstd"
	arrow "github.com/open-telemetry/otel-arrow/go/api/experimental/arrow/v1"
	"github.com/open-telemetry/otel-arrow/go/pkg/config"
	"github.com/open-telemetry/otel-arrow/go/pkg/otel/arrow_record"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/proto"
)

// OTel-Arrow v0.46.0: one producer. Its records are compressed with zstd message by message, as in STEF's
// benchmark, or by the zstd of Arrow's own format, which is its default.
var (
	otapMetrics = []way{otap(otapOutside, metricsByOTAP), otap(otapInside, metricsByOTAP)}
	otapTraces  = []way{otap(otapOutside, tracesByOTAP), otap(otapInside, tracesByOTAP)}
	otapLogs    = []way{otap(otapOutside, logsByOTAP), otap(otapInside, logsByOTAP)}
)

const (
	otapOutside = "OTel-Arrow, zstd"
	otapInside  = "OTel-Arrow, Arrow's zstd"
)

// byOTAP holds the two directions for one kind of messages.
type byOTAP struct {
	there func(p *arrow_record.Producer, message []byte) (*arrow.BatchArrowRecords, error)
	back  func(c *arrow_record.Consumer, records *arrow.BatchArrowRecords) (came int, err error)
}

func otap(name string, of byOTAP) way {
	return way{name, func() (func([]byte) ([]byte, error), func([][]byte) (int, error), error) {
		var options []config.Option
		if name == otapOutside {
			options = append(options, config.WithNoZstd())
		}
		p := arrow_record.NewProducerWithOptions(options...)
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		there := func(message []byte) ([]byte, error) {
			records, err := of.there(p, message)
			if err != nil {
				return nil, err
			}
			b, err := proto.Marshal(records)
			if name == otapOutside {
				b = w.EncodeAll(b, nil)
			}
			return b, err
		}
		return there, func(pieces [][]byte) (int, error) { return of.allBack(pieces, name == otapOutside) }, nil
	}}
}

func (of byOTAP) allBack(pieces [][]byte, packed bool) (came int, err error) {
	c := arrow_record.NewConsumer()
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	for _, b := range pieces {
		if packed {
			if b, err = r.DecodeAll(b, nil); err != nil {
				return came, err
			}
		}
		var records arrow.BatchArrowRecords
		if err := proto.Unmarshal(b, &records); err != nil {
			return came, err
		}
		n, err := of.back(c, &records)
		if came += n; err != nil {
			return came, err
		}
	}
	return came, c.Close()
}

var metricsByOTAP = byOTAP{
	func(p *arrow_record.Producer, message []byte) (*arrow.BatchArrowRecords, error) {
		m, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(message)
		if err != nil {
			return nil, err
		}
		return p.BatchArrowRecordsFromMetrics(m)
	},
	func(c *arrow_record.Consumer, records *arrow.BatchArrowRecords) (came int, err error) {
		all, err := c.MetricsFrom(records)
		for _, m := range all {
			came += m.DataPointCount()
			if _, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(m); err != nil {
				return came, err
			}
		}
		return came, err
	},
}

var tracesByOTAP = byOTAP{
	func(p *arrow_record.Producer, message []byte) (*arrow.BatchArrowRecords, error) {
		m, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(message)
		if err != nil {
			return nil, err
		}
		return p.BatchArrowRecordsFromTraces(m)
	},
	func(c *arrow_record.Consumer, records *arrow.BatchArrowRecords) (came int, err error) {
		all, err := c.TracesFrom(records)
		for _, m := range all {
			came += m.SpanCount()
			if _, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(m); err != nil {
				return came, err
			}
		}
		return came, err
	},
}

var logsByOTAP = byOTAP{
	func(p *arrow_record.Producer, message []byte) (*arrow.BatchArrowRecords, error) {
		m, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(message)
		if err != nil {
			return nil, err
		}
		return p.BatchArrowRecordsFromLogs(m)
	},
	func(c *arrow_record.Consumer, records *arrow.BatchArrowRecords) (came int, err error) {
		all, err := c.LogsFrom(records)
		for _, m := range all {
			came += m.LogRecordCount()
			if _, err := (&plog.ProtoMarshaler{}).MarshalLogs(m); err != nil {
				return came, err
			}
		}
		return came, err
	},
}
