package http

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// strictUpstream is an upstream that rejects every request that another reader could parse differently. It
// records requests and answers each with 103 Early Hints and 200.
type strictUpstream struct {
	addr string

	mu       sync.Mutex
	messages []message
	faults   []string
}

// message is a received request.
type message struct {
	method, target string
	header         map[string][]string // keys are lower case
	body           string              // after its content coding was removed
}

func (m message) String() string { return m.method + " " + m.target + " " + strconv.Quote(m.body) }

func newStrictUpstream(t testing.TB) *strictUpstream {
	l := listen(t)
	u := &strictUpstream{addr: l.Addr().String()}
	testenv.AcceptEach(t, l, u.serve)
	t.Cleanup(func() { _ = l.Close() })
	return u
}

func (u *strictUpstream) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		m, err := readStrictly(r)
		if err == io.EOF {
			return
		}
		u.note(m, err)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (u *strictUpstream) note(m message, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		u.messages = append(u.messages, m)
	case !errors.Is(err, errCut): // a request that was cut off is ignored
		u.faults = append(u.faults, err.Error())
	}
}

// forget drops everything recorded so far.
func (u *strictUpstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.messages, u.faults = nil, nil
}

// got returns the recorded requests, one line each, and the errors.
func (u *strictUpstream) got() (lines, faults []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.messages {
		lines = append(lines, m.String())
	}
	return lines, u.faults
}

var (
	errCut      = errors.New("the message was cut off")
	requestLine = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+) ([^\x00-\x20\x7f]+) HTTP/1\.1$`)
	headerLine  = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+): ([^\x00-\x08\x0a-\x1f\x7f]*)$`)
	chunkLine   = regexp.MustCompile(`^[0-9a-f]{1,8}$`)
	lengthValue = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	hostValue   = regexp.MustCompile(`^[0-9A-Za-z.:_\[\]-]+$`)
)

// readStrictly reads one request. It returns io.EOF if the connection ends before the first byte.
func readStrictly(r *bufio.Reader) (m message, err error) {
	line, err := strictLine(r)
	if err != nil {
		return m, err
	}
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil {
		return m, fmt.Errorf("request line %q", line)
	}
	m.method, m.target = parts[1], parts[2]
	if m.header, err = strictHeader(r); err != nil {
		return m, within(err)
	}
	if hosts := m.header["host"]; len(hosts) != 1 || !hostValue.MatchString(hosts[0]) {
		return m, fmt.Errorf("hosts %q", hosts)
	}
	body, err := strictBody(r, m.header)
	if err != nil {
		return m, within(err)
	}
	plain, err := decode(strings.Join(m.header["content-encoding"], ","), body)
	m.body = string(plain)
	return m, err
}

func within(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

func strictLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if line != "" {
			return "", errCut
		}
		return "", io.EOF
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsAny(text, "\r\x00") {
		return "", fmt.Errorf("line %q", line)
	}
	return text, nil
}

func strictHeader(r *bufio.Reader) (map[string][]string, error) {
	h := map[string][]string{}
	for {
		line, err := strictLine(r)
		if err != nil || line == "" {
			return h, err
		}
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("header line %q", line)
		}
		name := strings.ToLower(parts[1])
		h[name] = append(h[name], parts[2])
	}
}

func strictBody(r *bufio.Reader, h map[string][]string) ([]byte, error) {
	lengths, codings := h["content-length"], h["transfer-encoding"]
	switch {
	case len(lengths) == 0 && len(codings) == 0:
		return nil, nil
	case len(codings) == 1 && codings[0] == "chunked" && len(lengths) == 0:
		return strictChunks(r)
	case len(codings) == 0 && len(lengths) == 1 && lengthValue.MatchString(lengths[0]):
		n, _ := strconv.Atoi(lengths[0])
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	return nil, fmt.Errorf("lengths %q, transfer codings %q", lengths, codings)
}

func strictChunks(r *bufio.Reader) ([]byte, error) {
	var body bytes.Buffer
	for {
		line, err := strictLine(r)
		if err != nil {
			return nil, err
		}
		if !chunkLine.MatchString(line) {
			return nil, fmt.Errorf("chunk of length %q", line)
		}
		n, _ := strconv.ParseInt(line, 16, 64)
		if n == 0 {
			return body.Bytes(), strictTrailer(r)
		}
		if _, err := io.CopyN(&body, r, n); err != nil {
			return nil, err
		}
		if end, err := strictLine(r); err != nil || end != "" {
			return nil, fmt.Errorf("a chunk ends with %q, %w", end, err)
		}
	}
}

// strictTrailer reads trailers and refuses fields that are not allowed there.
func strictTrailer(r *bufio.Reader) error {
	h, err := strictHeader(r)
	if err != nil {
		return err
	}
	for _, name := range []string{"content-length", "transfer-encoding", "host", "trailer", "content-encoding", "authorization"} {
		if len(h[name]) > 0 {
			return fmt.Errorf("%s in the trailers", name)
		}
	}
	return nil
}
