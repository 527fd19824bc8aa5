package pairs

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/proto/history"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

const root = "../.."

// corpus holds recorded traffic, and files of the repository that servers would send.
type corpus struct {
	json, text, messages [][]byte // messages are of Protocol Buffers
	conversations        [][]byte // what clients and servers of Redis and PostgreSQL have sent, in turns
	commands             []command
	metrics              []string // names
}

// command is a recorded message to mongod, and the reply.
type command struct{ request, reply []byte }

var recorded = sync.OnceValue(func() (c corpus) {
	c.json = files("docs/*.json", "packaging/*/*.json", "packaging/kubernetes/cinch/*.json", "internal/gateway/peer/link/testdata/*.json", "clients/node/*.json", "envelope/testdata/*/index.json")
	c.text = files("docs/*.md", "internal/*/*/page/*.css", "internal/*/page/*", "internal/observe/admin/page/*.js", "internal/observe/admin/page/*/*.js", "internal/gateway/http/*.go")
	c.messages = files("codec/proto/testdata/*.message", "codec/grpccodec/testdata/message")
	for _, session := range files("codec/proto/history/testdata/*.session.gz") {
		c.messages = append(c.messages, messagesOf(session)...)
	}
	for _, f := range files("internal/gateway/redis/testdata/transcripts/*.txt", "internal/switchover/postgres/testdata/sessions/*") {
		c.conversations = append(c.conversations, linesOf(f)...)
	}
	c.commands = commandsOf(files("internal/gateway/mongo/testdata/mongod-*.txt")[0])
	for _, name := range regexp.MustCompile(`\bcinch_[a-z_]+`).FindAll(files("docs/METRICS.md")[0], -1) {
		c.metrics = append(c.metrics, string(name))
	}
	slices.Sort(c.metrics)
	c.metrics = slices.Compact(c.metrics)
	return c
})

// files returns the contents of the files that match. Each pattern must match at least one.
func files(patterns ...string) (all [][]byte) {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			panic(fmt.Sprintf("no files at %s: %v", pattern, err))
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				panic(err)
			}
			all = append(all, text)
		}
	}
	return all
}

// messagesOf decodes a recorded session of lanes and returns its messages of up to 1 MiB.
func messagesOf(session []byte) (all [][]byte) {
	z, err := gzip.NewReader(bytes.NewReader(session))
	if err != nil {
		panic(err)
	}
	sent, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	var r history.Reader
	for len(sent) > 0 {
		n, size := binary.Uvarint(sent)
		m, err := r.Append(nil, sent[size:size+int(n)], 1<<22)
		if err != nil {
			panic(err)
		}
		if len(m) <= 1<<20 {
			all = append(all, m)
		}
		sent = sent[size+int(n):]
	}
	return all
}

// linesOf returns the quoted texts in the lines of a transcript.
func linesOf(transcript []byte) (all [][]byte) {
	for line := range strings.Lines(string(transcript)) {
		if at := strings.IndexByte(line, '"'); at > 0 && line[0] != '#' {
			if text, err := strconv.Unquote(strings.TrimSpace(line[at:])); err == nil {
				all = append(all, []byte(text))
			}
		}
	}
	return all
}

// commandsOf returns the commands of a recording of mongod that have a reply and don't change the state of a
// connection.
func commandsOf(recording []byte) (all []command) {
	usual := []string{"find", "insert", "update", "delete", "aggregate", "count", "distinct", "ping", "findAndModify"}
	for line := range strings.Lines(string(recording)) {
		var request, reply string
		if _, err := fmt.Sscanf(line, "%q %q\n", &request, &reply); err != nil || reply == "" {
			continue
		}
		var m, r wire.Msg
		if m.Parse([]byte(request)) != nil || m.Flags != 0 || r.Parse([]byte(reply)) != nil || r.Flags != 0 {
			continue
		}
		name, _ := wire.First(m.Body.Of([]byte(request)))
		if slices.Contains(usual, string(name.Key)) {
			all = append(all, command{[]byte(request), []byte(reply)})
		}
	}
	if len(all) == 0 {
		panic("the recording of mongod has no commands")
	}
	return all
}

// kind generates bytes of one kind.
type kind struct {
	name, contentType string
	make              func(r *rand.Rand, n int) []byte // about n bytes, never the same ones
}

var kinds = []kind{
	{"json", "application/json", func(r *rand.Rand, n int) []byte { return cut(r, n, recorded().json) }},
	{"text", "text/html", func(r *rand.Rand, n int) []byte { return cut(r, n, recorded().text) }},
	{"orders", "application/x-ndjson", func(r *rand.Rand, n int) []byte { return codectest.JSON(n, r.Uint64()) }},
	{"words", "text/plain", func(r *rand.Rand, n int) []byte { return codectest.Text(n, r.Uint64()) }},
	{"writes", "application/x-protobuf", writeRequest},
	{"messages", "application/x-protobuf", func(r *rand.Rand, n int) []byte { return joined(r, n, recorded().messages) }},
	{"conversations", "application/octet-stream", func(r *rand.Rand, n int) []byte { return joined(r, n, recorded().conversations) }},
	{"random", "application/octet-stream", func(r *rand.Rand, n int) []byte { return codectest.Random(n, r.Uint64()) }},
	{"pictures", "image/jpeg", picture},
	{"base64", "text/plain", func(r *rand.Rand, n int) []byte {
		return []byte(base64.StdEncoding.EncodeToString(codectest.Random(n*3/4, r.Uint64())))
	}},
	{"zeros", "application/octet-stream", func(_ *rand.Rand, n int) []byte { return make([]byte, n) }},
	{"mixed", "application/octet-stream", func(r *rand.Rand, n int) []byte { return codectest.Mixed(n, r.Uint64N(1<<40)) }},
	{"form", "multipart/form-data", form},
}

// cut returns n bytes of pieces of documents, with random digits in place of their digits.
func cut(r *rand.Rand, n int, documents [][]byte) (b []byte) {
	for len(b) < n {
		d := documents[r.IntN(len(documents))]
		from := r.IntN(len(d))
		b = append(b, d[from:min(len(d), from+n-len(b))]...)
	}
	for i, c := range b {
		if '0' <= c && c <= '9' {
			b[i] = '0' + byte(r.IntN(10))
		}
	}
	return b
}

// joined concatenates random recordings; messages of Protocol Buffers become one message that way. A recording that
// does not compress is used only once: a link keeps such bytes out of its history, so it would not find the repetition.
func joined(r *rand.Rand, n int, recordings [][]byte) (b []byte) {
	random := map[int]bool{}
	for tries := 0; len(b) < n && tries < 20; tries++ {
		i := r.IntN(len(recordings))
		if one := recordings[i]; len(b)+len(one) < n+n/4 && !random[i] {
			random[i] = codec.Incompressible(one)
			b = append(b, one...)
			tries = 0
		}
	}
	return b
}

// writeRequest returns a request of Prometheus' remote write.
func writeRequest(r *rand.Rand, n int) []byte {
	var series []remotewrite.Series
	names, pod := recorded().metrics, r.IntN(1000)
	for i := range n / 130 {
		series = append(series, remotewrite.Series{
			Labels: []remotewrite.Label{
				{Name: "__name__", Value: names[(i+pod)%len(names)]},
				{Name: "instance", Value: fmt.Sprintf("10.0.%d.%d:9470", i/250%250, i%250)},
				{Name: "job", Value: "cinch"},
				{Name: "pod", Value: fmt.Sprintf("cinch-%06x", (i/len(names)+pod)*7919)},
			},
			Value: float64(r.IntN(1_000_000)) / 8, Timestamp: 1_790_000_000_000 + int64(r.IntN(100_000)),
		})
	}
	return remotewrite.AppendRequest(nil, series)
}

// picture returns a JPEG of about n bytes.
func picture(r *rand.Rand, n int) []byte {
	side := 8
	for side*side/2 < n {
		side += 8
	}
	img := image.NewGray(image.Rect(0, 0, side, side))
	for i := range img.Pix {
		img.Pix[i] = uint8(i%side/8+i/side/8) + uint8(r.Uint32())>>2
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, img, &jpeg.Options{Quality: 85})
	return b.Bytes()
}

// form returns n bytes of texts and pictures in turns, like a form with uploaded files.
func form(r *rand.Rand, n int) (b []byte) {
	for len(b) < n {
		b = append(b, codectest.JSON(500+r.IntN(3000), r.Uint64())...)
		b = append(b, picture(r, 2000+r.IntN(40_000))...)
	}
	return b[:n]
}
