package link

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	testKey  = []byte("a key of 32 bytes, for the tests")
	otherKey = []byte("another key of 32 bytes, as long")
)

// keyVector holds the hellos and proofs of two gateways with a key. clients/python/tests/test_peer.py reads the same
// ones.
type keyVector struct {
	Name   string `json:"name"`
	Key    string `json:"key"`              // all in hex
	Near   string `json:"near"`             // hello
	Far    string `json:"far"`              // hello
	Proof  string `json:"proof"`            // what the near gateway sends then
	Refuse string `json:"refuse,omitempty"` // who does not prove the key: near or far
}

var keyVectorFile = filepath.Join("testdata", "keys.json")

// newKeyVectors returns the vectors, as testdata/keys.json has them.
func newKeyVectors() (all []keyVector) {
	nonce := func(first byte) string {
		b := make([]byte, wire.NonceLen)
		for i := range b {
			b[i] = first + byte(i)
		}
		return string(b)
	}
	hello := wire.Hello{Lowest: 1, Highest: 1, Codecs: sends}
	near := hello
	near.Window, near.Extensions = firstWindow, wire.AppendExtension("", wire.Key, nonce(0))
	add := func(name, refuse string, near, far wire.Hello, frame []byte) {
		all = append(all, keyVector{name, hex.EncodeToString(testKey), hex.EncodeToString(near.Append(nil)), hex.EncodeToString(far.Append(nil)), hex.EncodeToString(frame), refuse})
	}
	far := prove(testKey, near, hello, nonce(0x10))
	good := wire.AppendProof(nil, testKey, near, far)
	add("the same key", "", near, far, good)

	lanes := wire.AppendExtension(wire.AppendExtension("", 200, "from later"), wire.Lanes, "\x01")
	nearLanes, farLanes := near, hello
	nearLanes.Extensions, farLanes.Extensions = lanes+near.Extensions, lanes
	farLanes = prove(testKey, nearLanes, farLanes, nonce(0x20))
	add("other extensions", "", nearLanes, farLanes, wire.AppendProof(nil, testKey, nearLanes, farLanes))

	add("the far one has another key", "far", near, prove(otherKey, near, hello, nonce(0x10)), nil)
	add("the far one has no key", "far", near, hello, nil)
	later := near
	later.Extensions = wire.AppendExtension("", wire.Key, nonce(1))
	add("the far one's proof of another link", "far", later, far, nil)
	reflected := hello
	reflected.Extensions = wire.AppendExtension("", wire.Key, nonce(0)+string(wire.KeyProof(testKey, wire.Near, near, far)))
	add("a proof with the near one's nonce", "far", near, reflected, nil)
	short := hello
	short.Extensions = wire.AppendExtension("", wire.Key, far.Extensions[2:len(far.Extensions)-1])
	add("the far one's proof is cut short", "far", near, short, nil)
	behind := far
	behind.Extensions += lanes
	add("extensions behind the far one's proof", "far", near, behind, nil)
	window := far
	window.Window = firstWindow
	add("the far one's hello was changed", "far", near, window, nil)

	add("the near one has another key", "near", near, far, wire.AppendProof(nil, otherKey, near, far))
	add("the near one's proof of another link", "near", later, prove(testKey, later, hello, nonce(0x10)), good)
	add("the far one's proof sent back", "near", near, far, append([]byte{byte(wire.Proof)}, wire.KeyProof(testKey, wire.Far, near, far)...))
	add("the near one's proof is cut short", "near", near, far, good[:len(good)-1])
	add("open without a proof", "near", near, far, append([]byte{byte(wire.Open)}, good[1:]...))
	return all
}

func TestKeyVectors(t *testing.T) {
	if *makeVectors {
		b, _ := json.MarshalIndent(newKeyVectors(), "", " ")
		if err := os.WriteFile(keyVectorFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(keyVectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []keyVector
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if n := len(newKeyVectors()); len(all) != n {
		t.Errorf("%d vectors in the file, %d in this test: see -make-vectors", len(all), n)
	}
	unhex := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, v := range all {
		near, err := wire.ParseHello(unhex(v.Near))
		if err != nil {
			t.Fatal(err)
		}
		far, err := wire.ParseHello(unhex(v.Far))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkFar(unhex(v.Key), near, far); errors.Is(err, errKey) != (v.Refuse == "far") {
			t.Errorf("%s: the far one: %v", v.Name, err)
		}
		if v.Refuse == "far" {
			continue
		}
		if err := checkNear(unhex(v.Key), near, far, bytes.NewReader(unhex(v.Proof))); errors.Is(err, errKey) != (v.Refuse == "near") {
			t.Errorf("%s: the near one: %v", v.Name, err)
		}
	}
}

// withKey returns an endpoint with a key, and its log.
func withKey(t *testing.T, name string, key []byte) (*Endpoint, *testenv.Log) {
	t.Helper()
	e, log := newEndpoint(t, name), &testenv.Log{}
	e.cfg.Key, e.cfg.Log = key, log.Logger()
	return e, log
}

// Two gateways get a link only if both have the same key or neither has one. The log of both names the key's file
// otherwise.
func TestKeys(t *testing.T) {
	for name, c := range map[string]struct {
		near, far      []byte
		nearErr, farIs string // parts of errors
	}{
		"the same":     {testKey, testKey, "", ""},
		"none":         {nil, nil, "", ""},
		"different":    {testKey, otherKey, "the far one has another", "no proof came from the near one"},
		"far has one":  {nil, testKey, "this one has none", "the near one has none"},
		"near has one": {testKey, nil, "the far one has none", "this one has none"},
	} {
		t.Run(name, func(t *testing.T) {
			near, _ := withKey(t, "near", c.near)
			far, log := withKey(t, "far", c.far)
			if c.nearErr == "" {
				n, f, _ := carryNew(t, near, far)
				if _, err := n.Write([]byte("something")); err != nil {
					t.Fatal(err)
				}
				if got := make([]byte, 9); !readsFull(f, got) || string(got) != "something" {
					t.Errorf("%q", got)
				}
				return
			}
			a, b := wires(t)
			accepted := make(chan error, 1)
			go func() {
				_, err := far.Accept(b, nil)
				_ = b.Close()
				accepted <- err
			}()
			_, err := near.Enter(t.Context(), a, "")
			_ = a.Close()
			if !errors.Is(err, errKey) || !strings.Contains(err.Error(), c.nearErr) || !strings.Contains(err.Error(), "peer_key_file") || HelloErrorClass(err) != "bad_key" {
				t.Errorf("near: %v", err)
			}
			if err := <-accepted; !errors.Is(err, errKey) || !strings.Contains(err.Error(), c.farIs) {
				t.Errorf("far: %v", err)
			}
			if log.Count("peer_key_file") != 1 || far.cfg.Stats.Snapshot().Errors["bad_key"] != 1 {
				t.Errorf("%v\n%s", far.cfg.Stats.Snapshot().Errors, log)
			}
		})
	}
}

func readsFull(c net.Conn, b []byte) bool {
	_, err := io.ReadFull(c, b)
	return err == nil
}

// recorded records what a gateway sends.
type recorded struct {
	net.Conn
	sent bytes.Buffer
}

func (r *recorded) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.Conn.Write(b)
}

// An attacker who replays a recorded link gets no link with either side.
func TestReplayedLinks(t *testing.T) {
	near, _ := withKey(t, "near", testKey)
	far, _ := withKey(t, "far", testKey)
	a, b := wires(t)
	fromNear, fromFar := &recorded{Conn: a}, &recorded{Conn: b}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := far.Accept(fromFar, nil)
		accepted <- c
	}()
	n, err := near.Enter(t.Context(), fromNear, "")
	f := <-accepted
	if err != nil || f == nil {
		t.Fatal(err)
	}
	hello, answer := bytes.Clone(fromNear.sent.Bytes()), bytes.Clone(fromFar.sent.Bytes())
	_, _ = n.Close(), f.Close()

	again, b := wires(t)
	if _, err := again.Write(hello); err != nil { // with its proof, and OPEN
		t.Fatal(err)
	}
	if _, err := far.Accept(b, nil); !errors.Is(err, errKey) {
		t.Errorf("far: %v", err)
	}
	a, again = wires(t)
	if _, err := again.Write(answer); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Enter(t.Context(), a, ""); !errors.Is(err, errKey) {
		t.Errorf("near: %v", err)
	}
	wantNone(t, near)
	wantNone(t, far)
}

// Until a near gateway has proved the key, no memory is reserved for it, and it gets no link once the deadline has
// passed.
func TestUnprovenPeersGetNothing(t *testing.T) {
	far, _ := withKey(t, "far", testKey)
	a, b := wires(t)
	hello := ourHello
	hello.Extensions = wire.AppendExtension("", wire.Key, strings.Repeat("n", wire.NonceLen))
	if _, err := a.Write(hello.Append(nil)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := far.Answer(b, nil, time.Hour)
		ended <- err
	}()
	theirs, err := readHello(a)
	if err != nil || theirs.Window != 0 || far.State().Promised != 0 {
		t.Errorf("%+v, %+v, %v", theirs, far.State(), err)
	}
	_ = b.SetDeadline(time.Now())
	if err := <-ended; errors.Is(err, errKey) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// FuzzKey lets an unauthenticated peer send anything to both sides that have a key. It gets no link.
func FuzzKey(f *testing.F) {
	for _, v := range newKeyVectors() {
		for _, text := range []string{v.Near + v.Proof + "20", v.Far + "20"} {
			b, err := hex.DecodeString(text)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	e := NewEndpoint(Config{Name: "fuzz", Key: testKey, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("fuzz", "tunnel")})
	f.Fuzz(func(t *testing.T, said []byte) {
		if _, err := e.Answer(spoken{bytes.NewReader(said)}, nil, time.Second); err == nil {
			t.Errorf("a link to a near gateway without the key: %x", said)
		}
		if _, err := e.Greet(spoken{bytes.NewReader(said)}); err == nil {
			t.Errorf("a link to a far gateway without the key: %x", said)
		}
		wantNone(t, e)
	})
}
