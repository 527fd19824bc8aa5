package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

var (
	errRefused = errors.New("link: the other gateway is full or about to end")
	errUnused  = errors.New("link: nothing came")
)

// HelloErrorClass returns the class of an error of Answer or Greet in cinch_errors_total. It returns "" for a
// connection that ended or timed out.
func HelloErrorClass(err error) string { return helloErrors.Of(err) }

var helloErrors = gateway.ErrorClasses{
	{wire.ErrVersion, "version"},
	{wire.ErrMagic, "bad_hello"},
	{wire.ErrMalformed, "bad_hello"},
	{errRefused, "refused"},
	{errKey, "bad_key"},
}

// sends has a bit for each codec of pieces. The other codecs of the format compress less and take more CPU.
const sends = 1<<codec.Raw | 1<<codec.Snappy | 1<<codec.S2 | 1<<codec.MinLZ | 1<<codec.LZ4 | 1<<codec.Zstd

// ourHello is the hello of this side, without a window.
var ourHello = wire.Hello{Lowest: wire.Version, Highest: wire.Version, Codecs: sends}

// newLink returns a link, and the hello to send. If grant is set and there is memory, the hello grants a window, whose
// memory is reserved. A peer that has still to prove a key gets none.
func (e *Endpoint) newLink(c net.Conn, grant bool) (*Link, wire.Hello) {
	ours, window := ourHello, byte(min(firstWindow, e.cfg.Window))
	ours.Extensions = e.cfg.Extensions
	kept := e.readerBytes(window)
	if !grant || !e.history.promise(kept) {
		window, kept = 0, 0
	}
	ours.Window = window
	l := &Link{e: e, conn: c}
	l.in.init(l, window, kept)
	return l, ours
}

// answer reads the near gateway's hello, of which ahead has been read already, and answers it.
func (e *Endpoint) answer(c net.Conn, ahead []byte) (*Link, error) {
	_ = c.SetDeadline(time.Now().Add(e.cfg.HelloTimeout))
	theirs, err := readHello(io.MultiReader(bytes.NewReader(ahead), c))
	if errors.Is(err, errUnused) { // a load balancer checks the port, for example
		return nil, err
	}
	if err == nil {
		err = e.checkNonce(theirs)
	}
	refusal := ourHello
	switch {
	case errors.Is(err, wire.ErrVersion):
		refusal.Status = wire.StatusVersion
	case errors.Is(err, errKey):
		refusal.Status = wire.StatusKey
	}
	if refusal.Status != wire.StatusOK {
		_, _ = c.Write(refusal.Append(nil))
	}
	if err != nil {
		return nil, err
	}
	key := e.cfg.Key
	l, ours := e.newLink(c, key == nil)
	if key != nil {
		ours = prove(key, theirs, ours, newNonce())
	}
	l.meet(theirs)
	_, err = c.Write(ours.Append(nil))
	if err == nil && key != nil {
		err = checkNear(key, theirs, ours, c)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

// readHello reads a hello, and no byte after it. If the connection ends before its first byte it returns errUnused.
func readHello(c io.Reader) (wire.Hello, error) {
	b := make([]byte, wire.HelloLen, wire.MaxHello)
	if n, err := io.ReadFull(c, b); n == 0 && err != nil {
		return wire.Hello{}, fmt.Errorf("%w: %w", errUnused, err)
	} else if err != nil {
		return wire.Hello{}, fmt.Errorf("%w: %d bytes, then %w", wire.ErrMagic, n, err)
	}
	n, err := wire.HelloSize(b)
	if err != nil {
		return wire.Hello{}, err
	}
	b = b[:n]
	if _, err := io.ReadFull(c, b[wire.HelloLen:]); err != nil {
		return wire.Hello{}, fmt.Errorf("%w: hello cut short: %w", wire.ErrMalformed, err)
	}
	return wire.ParseHello(b)
}

// Answer answers the hello of a near gateway on c, of which ahead has been read already. It then waits for OPEN, no
// longer than timeout: a tunnel's entry opens links before it has clients for them. After an error the caller must
// close c.
func (e *Endpoint) Answer(c net.Conn, ahead []byte, timeout time.Duration) (*Link, error) {
	l, err := e.answer(c, ahead)
	if err != nil {
		return nil, err
	}
	if err := l.awaitOpen(timeout); err != nil {
		l.Free()
		return nil, err
	}
	return l, nil
}

func (l *Link) awaitOpen(timeout time.Duration) error {
	_ = l.conn.SetReadDeadline(time.Now().Add(timeout))
	var b [1]byte
	if _, err := io.ReadFull(l.conn, b[:]); err != nil {
		return fmt.Errorf("%w: %w", errUnused, err)
	}
	if wire.Kind(b[0]) != wire.Open {
		return fmt.Errorf("%w: %02x before the link is open", wire.ErrMalformed, b[0])
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// Greet sends a hello on c and waits for the answer, no longer than HelloTimeout. With a key it checks the far
// gateway's proof, and then sends its own. After an error the caller must close c.
func (e *Endpoint) Greet(c net.Conn) (*Link, error) {
	_ = c.SetDeadline(time.Now().Add(e.cfg.HelloTimeout))
	l, ours := e.newLink(c, true)
	if e.cfg.Key != nil {
		ours.Extensions = wire.AppendExtension(ours.Extensions, wire.Key, newNonce())
	}
	theirs, err := e.exchangeHellos(c, ours)
	if err == nil && e.cfg.Key != nil {
		if err = checkFar(e.cfg.Key, ours, theirs); err == nil {
			_, err = c.Write(wire.AppendProof(nil, e.cfg.Key, ours, theirs))
		}
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		l.Free()
		return nil, err
	}
	l.meet(theirs)
	return l, nil
}

func (e *Endpoint) exchangeHellos(c net.Conn, ours wire.Hello) (theirs wire.Hello, err error) {
	if _, err := c.Write(ours.Append(nil)); err != nil {
		return theirs, fmt.Errorf("hello: %w", err)
	}
	if theirs, err = readHello(c); err != nil {
		return theirs, fmt.Errorf("hello: %w", err)
	}
	switch theirs.Status {
	case wire.StatusOK:
		return theirs, nil
	case wire.StatusVersion:
		return theirs, fmt.Errorf("%w, says the exit", wire.ErrVersion)
	case wire.StatusKey:
		if e.cfg.Key == nil {
			return theirs, fmt.Errorf("%w: this one has none", errKey)
		}
		return theirs, fmt.Errorf("%w: the far one has none", errKey)
	default:
		return theirs, errRefused
	}
}
