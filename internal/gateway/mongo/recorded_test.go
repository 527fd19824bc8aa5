package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Without a server, tests of the messages on the wire use recorded replies: those that a mongod gave to the
// same requests, decompressed. To record them again, for all tests together:
//
//	go test ./internal/gateway/mongo -record
var recordAnew = flag.Bool("record", false, "record what mongod answers, in "+recordingFile)

const recordingFile = "testdata/mongod-6.0.5.txt"

// maxRecorded limits the messages of the recording, in bytes. Tests with longer ones need the server.
const maxRecorded = 32 << 10

// recording holds the reply to each request; "" if there is none. The message IDs are zero in both.
type recording struct {
	mu      sync.Mutex
	replies map[string]string
	codecs  *compression
}

func newRecording(t testing.TB) *recording {
	return &recording{replies: map[string]string{}, codecs: compressionBy(t, nil)}
}

// withoutNumbers returns a message decompressed and with its IDs set to zero.
func (r *recording) withoutNumbers(m message) (string, error) {
	b := m.received
	if m.compressor != plain {
		var err error
		if b, err = r.codecs.decompress(&m); err != nil {
			return "", err
		}
	}
	b = bytes.Clone(b)
	clear(b[4:12])
	return string(b), nil
}

// numbered is the inverse of withoutNumbers, for a reply.
func numbered(message string, id, to int32) []byte {
	b := []byte(message)
	h, _ := wire.ParseHeader(b)
	h.RequestID, h.ResponseTo = id, to
	copy(b, wire.AppendHeader(nil, h))
	if hasChecksum(b, h) {
		wire.PutChecksum(b)
	}
	return b
}

// hasChecksum reports whether a complete message has a checksum, valid or not.
func hasChecksum(b []byte, h wire.Header) bool {
	return h.OpCode == wire.OpMsg && binary.LittleEndian.Uint32(b[wire.HeaderLen:])&uint32(wire.ChecksumPresent) != 0
}

// startRecorded starts a server that replies from the recording.
func startRecorded(t *testing.T) (addr string) {
	t.Helper()
	text, err := os.ReadFile(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecording(t)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var request, reply string
		if _, err := fmt.Sscanf(line, "%q %q\n", &request, &reply); err != nil {
			t.Fatalf("%s: %.60q: %v", recordingFile, line, err)
		}
		r.replies[request] = reply
	}
	return accept(t, func(c net.Conn) {
		in := reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}
		defer in.Free()
		for id := int32(1); ; id++ {
			m, err := in.next()
			if err != nil {
				return
			}
			request, err := r.withoutNumbers(m)
			if err != nil {
				return
			}
			reply, known := r.replies[request]
			if !known {
				t.Errorf("the recording has no reply to %.300q", request)
				return
			}
			if reply == "" {
				continue
			}
			b := numbered(reply, id, m.header.RequestID)
			if h, _ := wire.ParseHeader(b); m.compressor != plain {
				b = r.codecs.compress(b, h, m.compressor, 0)
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
}

// startRecorder starts a proxy for a server that adds the messages to the recording.
func startRecorder(t *testing.T, server string) (addr string) {
	t.Helper()
	r := testenv.Shared(t, "recording", func(t testing.TB) *recording {
		r := newRecording(t)
		t.Cleanup(func() { r.write(t) })
		return r
	})
	return accept(t, func(c net.Conn) {
		up, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer up.Close()
		var mu sync.Mutex
		sent := map[int32]string{} // by request ID
		go func() {
			defer c.Close()
			r.carry(c, up, func(m message) {
				mu.Lock()
				defer mu.Unlock()
				if request, known := sent[m.header.ResponseTo]; known {
					r.add(request, m)
				}
			})
		}()
		r.carry(up, c, func(m message) {
			if request, err := r.withoutNumbers(m); err == nil {
				mu.Lock()
				defer mu.Unlock()
				sent[m.header.RequestID] = request
				r.add(request, message{})
			}
		})
	})
}

func (r *recording) carry(to, from net.Conn, each func(message)) {
	in := reader{Inbound: gateway.Inbound{Conn: from, Ctx: context.Background()}}
	defer in.Free()
	for {
		m, err := in.next()
		if err != nil {
			return
		}
		each(m)
		if _, err := to.Write(m.received); err != nil {
			return
		}
	}
}

// add records a request with the server's first reply to it.
func (r *recording) add(request string, reply message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.replies[request]
	if reply.received == nil {
		if !known && len(request) <= maxRecorded {
			r.replies[request] = ""
		}
		return
	}
	if text, err := r.withoutNumbers(reply); err == nil && known && before == "" && len(text) <= maxRecorded {
		r.replies[request] = text
	}
}

func (r *recording) write(t testing.TB) {
	var b strings.Builder
	b.WriteString("# What mongod 6.0.5 answers, made by: go test ./internal/gateway/mongo -record\n")
	for _, request := range slices.Sorted(maps.Keys(r.replies)) {
		fmt.Fprintf(&b, "%s %s\n", strconv.Quote(request), strconv.Quote(r.replies[request]))
	}
	if err := os.WriteFile(recordingFile, []byte(b.String()), 0o600); err != nil {
		t.Error(err)
	}
}

// accept serves connections until the test ends.
func accept(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}
