package grpc

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A client that does not know of a small window yet sends as much as HTTP/2's initial window allows, 65,535
// bytes; so does a gateway in front of this one on a new connection. This must not count as an error.
func TestWindowThatIsNotKnownYet(t *testing.T) {
	g := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) { c.Window = 16 << 10 })
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	var out bytes.Buffer // written at once, before anything is read
	out.WriteString(xhttp2.ClientPreface)
	fr := xhttp2.NewFramer(&out, c)
	_ = fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 20})
	_ = fr.WriteWindowUpdate(0, 1<<20)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/test.Echo/Unary"},
		{":authority", "test"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	message := frame(false, payload(65_535-5))
	for rest := message; len(rest) > 0; rest = rest[min(len(rest), 16<<10):] {
		piece := rest[:min(len(rest), 16<<10)]
		_ = fr.WriteData(1, len(piece) == len(rest), piece)
	}
	if _, err := c.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	var answer []byte
	for {
		f, err := fr.ReadFrame()
		switch f := f.(type) {
		case *xhttp2.RSTStreamFrame:
			t.Fatalf("the stream was reset: %v", f.ErrCode)
		case *xhttp2.DataFrame:
			answer = append(answer, f.Data()...)
		}
		if err == io.EOF || err == nil && f.Header().Flags.Has(xhttp2.FlagDataEndStream) && f.Header().StreamID == 1 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(answer, message) {
		t.Errorf("%d bytes of %d came back", len(answer), len(message))
	}
}
