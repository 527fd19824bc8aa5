package pairs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
)

const (
	httpRequests = "{direction: request, setting: zstd-3}"
	httpReplies  = "{direction: reply, setting: zstd-3}"
)

func TestHTTP(t *testing.T) { compareAll(t, overHTTP, allCodings, overLinks) }

func overHTTP(t *testing.T, s *sequence) (one, pair, links int64) {
	scheme := "http"
	if s.http2 {
		scheme = "h2c"
	}
	server := startHTTP(t, s)

	requests := startWire(t, server)
	replies := startWire(t, gateway(t, "http", scheme+"://"+requests.Addr, "upstream_encodings: [zstd], rules: ["+httpRequests+", "+httpReplies+"]"))
	var sent, received func() (up, down int64)
	s.play(t, s.turns(), func() { sent, received = requests.mark(), replies.mark() }, s.httpClients(t, replies.Addr), once)
	up, _ := sent()
	_, down := received()

	between := startWire(t, gateway(t, "http", scheme+"://"+server, "peers: true, rules: ["+httpReplies+"]"))
	near := gateway(t, "http", scheme+"://"+between.Addr, "rules: ["+httpRequests+"]")
	return up + down, s.playLinked(t, s.turns(), between, s.httpClients(t, near)), between.links.Load()
}

// startHTTP starts the server of a sequence, for both versions of HTTP.
func startHTTP(t *testing.T, s *sequence) (addr string) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		c, errC := strconv.Atoi(r.Header.Get("X-Client"))
		i, errI := strconv.Atoi(r.Header.Get("X-Exchange"))
		if errC != nil || errI != nil { // from before the sequence
			return
		}
		x := s.clients[c][i]
		if got, err := decode(r.Header.Get("Content-Encoding"), received); err != nil || !bytes.Equal(got, x.request) {
			t.Errorf("exchange %d of client %d: the server got %d of %d bytes, %v", i, c, len(got), len(x.request), err)
		}
		w.Header().Set("Content-Type", x.contentType)
		if !s.chunked {
			w.Header().Set("Content-Length", strconv.Itoa(len(x.reply)))
		}
		_, _ = w.Write(x.reply)
	}))
	server.Config.Protocols = protocols(true, true)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func protocols(http1, http2 bool) *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(http1)
	p.SetUnencryptedHTTP2(http2)
	return p
}

// unknownLength hides the length of a body.
type unknownLength struct{ io.Reader }

// httpClients returns a function that makes the clients of a sequence, each with one connection.
func (s *sequence) httpClients(t *testing.T, addr string) func(c int) client {
	return func(c int) client {
		transport := &http.Transport{DisableCompression: true, MaxConnsPerHost: 1, Protocols: protocols(!s.http2, s.http2)}
		post := func(body []byte, h http.Header) ([]byte, error) {
			var in io.Reader = bytes.NewReader(body)
			if s.chunked && len(body) > 0 {
				in = unknownLength{in}
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/api", in)
			if err != nil {
				return nil, err
			}
			r.Header = h
			resp, err := transport.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			received, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s: %s", resp.Status, received)
			}
			if err != nil {
				return nil, err
			}
			return decode(resp.Header.Get("Content-Encoding"), received)
		}
		return client{
			prepare: func() {
				if _, err := post(nil, http.Header{}); err != nil {
					t.Error(err)
				}
			},
			exchange: func(i int, x exchange) {
				h := http.Header{"X-Client": {fmt.Sprint(c)}, "X-Exchange": {fmt.Sprint(i)}, "Content-Type": {x.contentType}, "Accept-Encoding": {"zstd"}}
				if s.coding != "" {
					h.Set("Content-Encoding", s.coding)
				}
				if got, err := post(encode(s.coding, x.request), h); err != nil || !bytes.Equal(got, x.reply) {
					t.Errorf("exchange %d of client %d: the client got %d of %d bytes, %v", i, c, len(got), len(x.reply), err)
				}
			},
			close: transport.CloseIdleConnections,
		}
	}
}

// turns returns how many exchanges of a client run at the same time.
func (s *sequence) turns() int {
	if s.http2 {
		return s.atOnce
	}
	return 1
}

// encode compresses a body as clients do by default.
func encode(coding string, b []byte) []byte {
	var out bytes.Buffer
	switch coding {
	case "gzip":
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
	case "zstd":
		w, _ := zstd.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
	case "snappy":
		return snappy.Encode(nil, b)
	default:
		return b
	}
	return out.Bytes()
}

// decode is the inverse of encode.
func decode(coding string, b []byte) ([]byte, error) {
	switch coding {
	case "":
		return b, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(b, nil)
	case "snappy":
		return snappy.Decode(nil, b)
	}
	return nil, fmt.Errorf("coding %q", coding)
}
