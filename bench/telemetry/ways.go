package main

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/codec/proto/history"
)

// way converts messages to bytes and back, all of them once, in order.
type way struct {
	name   string
	column string // the column encoding of the stream's input; "": messages whole; apart: version 2
	level  int    // of the stream; 0: none
	window int    // of the stream
	alone  string // the encoding of each message by itself, where there is no stream
}

var ways = []way{
	{name: "by message, S2", alone: "s2"},
	{name: "by message, gzip", alone: "gzip-6"},
	{name: "by message, zstd-3", alone: "zstd-3"},
	{name: "by message, cinch-proto", alone: "cinch-proto"},
	{name: "history, whole, zstd-3", level: 3, window: codec.MaxStreamWindow},
	{name: "history, columns, zstd-3", column: "cinch-proto-raw", level: 3, window: codec.MaxStreamWindow},
	{name: "history, cinch-proto 2, zstd-3", column: apart, level: 3, window: codec.MaxStreamWindow},
	{name: "history, cinch-proto 2, zstd-1", column: apart, level: 1, window: codec.MaxStreamWindow},
	{name: "history, columns, zstd-3 of 128 KiB", column: "cinch-proto-raw", level: 3, window: firstWindow},
	{name: "history, cinch-proto 2, zstd-3 of 128 KiB", column: apart, level: 3, window: firstWindow},
}

// firstWindow is a link's first window, as log2 of bytes.
const firstWindow = 17

// apart names the column encoding that refers to earlier messages.
const apart = "history"

// Bytes that HTTP/2 and a link add to a piece, and gRPC to a message, as in bench/grpc.
const (
	pieceBytes  = 64 << 10
	frameHeader = 9
	messageHead = 5
)

var errNotSame = errors.New("decompressing returned a different message")

// codecs holds the codecs of all ways. zstd is libzstd, as in gateways.
type codecs struct {
	set    *grpccodec.Set
	engine *codec.Engine
}

func newCodecs() (codecs, error) {
	z, ok := libzstd.New()
	if !ok {
		return codecs{}, errors.New("libzstd is needed, as in gateways: build with cgo")
	}
	return codecs{grpccodec.NewSet(grpccodec.Options{Zstd: z}), codec.New(codec.Options{Zstd: z})}, nil
}

// result holds the sizes and times of one run. framing is the size that frames and heads would add on a link.
type result struct {
	bytes, framing int
	there, back    time.Duration
}

func (c codecs) run(w way, all [][]byte) (result, error) {
	if w.level == 0 {
		return c.eachAlone(w, all)
	}
	return c.stream(w, all)
}

func (c codecs) eachAlone(w way, all [][]byte) (r result, err error) {
	var packed, back []byte
	for _, m := range all {
		began := threadTime()
		if packed, err = c.set.AppendCompress(packed[:0], m, w.alone); err != nil {
			return r, err
		}
		middle := threadTime()
		if back, err = c.set.AppendDecompress(back[:0], packed, w.alone, len(m)); err != nil {
			return r, err
		}
		r.add(began, middle)
		if !bytes.Equal(back, m) {
			return r, errNotSame
		}
		r.bytes, r.framing = r.bytes+len(packed), r.framing+messageHead
	}
	return r, nil
}

func (r *result) add(began, middle time.Duration) {
	r.there, r.back = r.there+middle-began, r.back+threadTime()-middle
}

// transform converts messages to a stream's input and back.
type transform struct {
	there func(dst, m []byte) ([]byte, error)
	back  func(dst, src []byte, size int) ([]byte, error)
}

func (c codecs) transform(w way) transform {
	switch w.column {
	case apart:
		var to history.Writer
		var from history.Reader
		return transform{
			func(dst, m []byte) ([]byte, error) { return to.Append(dst, m), nil },
			from.Append,
		}
	case "":
		return transform{
			func(dst, m []byte) ([]byte, error) { return append(dst, m...), nil },
			func(dst, src []byte, _ int) ([]byte, error) { return append(dst, src...), nil },
		}
	}
	return transform{
		func(dst, m []byte) ([]byte, error) { return c.set.AppendCompress(dst, m, w.column) },
		func(dst, src []byte, size int) ([]byte, error) {
			return c.set.AppendDecompress(dst, src, w.column, size)
		},
	}
}

func (c codecs) stream(w way, all [][]byte) (r result, err error) {
	to, err := c.engine.StreamWriter(w.level, w.window)
	if err != nil {
		return r, err
	}
	defer to.Close()
	from, err := c.engine.StreamReader(w.window)
	if err != nil {
		return r, err
	}
	defer from.Close()
	t := c.transform(w)
	var columns, arrived, back []byte
	var pieces [][]byte
	for _, m := range all {
		began := threadTime()
		if columns, err = t.there(columns[:0], m); err != nil {
			return r, err
		}
		n := 0
		for part := range slices.Chunk(columns, pieceBytes) {
			if n == len(pieces) {
				pieces = append(pieces, nil)
			}
			if pieces[n], err = to.Append(pieces[n][:0], part); err != nil {
				return r, err
			}
			r.bytes, r.framing = r.bytes+len(pieces[n]), r.framing+frameHeader
			n++
		}
		middle := threadTime()
		arrived = arrived[:0]
		for i, piece := range pieces[:n] {
			if arrived, err = from.Append(arrived, piece, min(pieceBytes, len(columns)-i*pieceBytes)); err != nil {
				return r, err
			}
		}
		if back, err = t.back(back[:0], arrived, len(m)); err != nil {
			return r, err
		}
		r.add(began, middle)
		if !bytes.Equal(back, m) {
			return r, errNotSame
		}
		r.framing += messageHead
	}
	return r, nil
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
