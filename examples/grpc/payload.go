package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

// payloadKind is the number of series per request and the number of different requests.
type payloadKind struct{ series, requests int }

// payloadFile holds length-prefixed requests, so that the distributors of all variants send the same ones and
// spend no time on making them.
type payloadFile struct {
	path  string
	bytes int64
}

// makePayloads writes remote-write requests in scrape order: a cluster's targets, scraped one after the
// other.
func makePayloads(ctx context.Context, dir string, kind payloadKind) (payloadFile, error) {
	corpus, err := remotewrite.Load(ctx)
	if err != nil {
		return payloadFile{}, err
	}
	file := payloadFile{path: filepath.Join(dir, fmt.Sprintf("requests-%d", kind.series))}
	var out []byte
	for _, request := range corpus.Scraped(kind.series, kind.requests) {
		file.bytes += int64(len(request))
		out = binary.AppendUvarint(out, uint64(len(request)))
		out = append(out, request...)
	}
	return file, os.WriteFile(file.path, out, 0o600)
}

func readPayloads(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var requests [][]byte
	for {
		n, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		request := make([]byte, n)
		if _, err := io.ReadFull(in, request); err != nil {
			return nil, err
		}
		requests = append(requests, request)
	}
}

// countSeries parses a WriteRequest { repeated TimeSeries timeseries = 1 } as a receiver that decodes it
// would.
func countSeries(request []byte) (series int, err error) {
	for len(request) > 0 {
		number, kind, n := protowire.ConsumeTag(request)
		if n < 0 {
			return series, protowire.ParseError(n)
		}
		request = request[n:]
		if n = protowire.ConsumeFieldValue(number, kind, request); n < 0 {
			return series, protowire.ParseError(n)
		}
		request = request[n:]
		if number == 1 {
			series++
		}
	}
	return series, nil
}
