package mongo

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// The first hello always gets the offer, later ones only if the client makes one.
func TestHellosOfferOnce(t *testing.T) {
	p := newParts(t, withZstd)
	for i, want := range []string{pairName + " zstd snappy", "", pairName + " zstd snappy"} {
		doc := hello()
		if i == 2 {
			doc = hello("snappy", "unknown")
		}
		out, waits, err := p.helloForServer(requestOf(t, opMsg(1, 0, doc)))
		if err != nil {
			t.Fatal(err)
		}
		sent := answer{doc: requestOf(t, out).document.Of(out)}.compression()
		if got := strings.Join(sent, " "); got != want || waits.offerSent != (want != "") {
			t.Errorf("hello %d offers %q", i, got)
		}
		if i == 2 && !slices.Equal(waits.clientCompressors, []wire.CompressorID{wire.Snappy}) {
			t.Errorf("the client sees %v", waits.clientCompressors)
		}
	}
}

func TestHellosAnswer(t *testing.T) {
	p := newParts(t, withZstd)
	p.g.addresses.setStandbys("rs", []string{"standby:9"})
	server := bson.D{
		{Key: "hosts", Value: bson.A{"db0:1", "db1:1"}},
		{Key: "setName", Value: "rs"},
		{Key: "me", Value: "db0:1"},
		{Key: "compression", Value: bson.A{"zstd", "snappy", "zlib"}},
		{Key: "ok", Value: 1},
	}
	out, err := p.helloForClient(&handshake{offerSent: true, offer: p.offer(), clientCompressors: []wire.CompressorID{wire.Snappy}, logins: p.g.logins}, replyOf(t, server))
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Hosts, Compression, Arbiters []string
		Me                           string
	}
	if err := bson.Unmarshal(requestOf(t, out).document.Of(out), &said); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(said) != "{[gateway:27 db1:1] [snappy] [standby:9] gateway:27}" {
		t.Errorf("%+v", said)
	}
	if compressorSet(p.accepted.Load()) != 1<<wire.Zstd|1<<wire.Snappy {
		t.Errorf("taken: %b", compressorSet(p.accepted.Load()))
	}
	if n := p.log.Count("member has no gateway"); n != 1 {
		t.Errorf("%d lines about members without a gateway", n)
	}
}

// A balancer's client gets the members' own names, and a service ID.
func TestHellosOfABalancer(t *testing.T) {
	p := newParts(t, withZstd, endpoint.Upstream{Address: "db0:1"}, endpoint.Upstream{Address: "db1:1"})
	_, waits, err := p.helloForServer(requestOf(t, opMsg(1, 0, append(hello(), bson.E{Key: "loadBalanced", Value: true}))))
	if err != nil || !waits.loadBalanced || waits.serviceID != p.g.balancer.serviceID(0) {
		t.Fatalf("%+v, %v", waits, err)
	}
	primary := bson.D{{Key: "hosts", Value: bson.A{"db0:1"}}, {Key: "me", Value: "db0:1"}, {Key: "isWritablePrimary", Value: true}, {Key: "ok", Value: 1}}
	out, err := p.helloForClient(waits, replyOf(t, primary))
	if err != nil || !bytes.Contains(out, []byte("serviceId")) || bytes.Contains(out, []byte("gateway:27")) {
		t.Errorf("%v: %q", err, out)
	}
	primary[2].Value = false
	if _, err := p.helloForClient(waits, replyOf(t, primary)); !errors.Is(err, errNotPrimary) {
		t.Errorf("a member that is primary no more: %v", err)
	}
}

// The handshake's other fields arrive unchanged.
func TestHelloKeepsTheRest(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	auth := bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: []byte("n,,n=u,r=compression")}, {Key: "db", Value: "admin"}}
	sent := append(hello("snappy"), bson.E{Key: "speculativeAuthenticate", Value: auth}, bson.E{Key: "client", Value: bson.D{{Key: "driver", Value: bson.D{{Key: "name", Value: "raw"}}}}})
	tap.take()
	raw := dialRaw(t, s.addr)
	raw.run(plain, sent)
	requests, _ := tap.take()
	var msg wire.Msg
	if err := msg.Parse(requests[0].bytes); err != nil {
		t.Fatalf("%v: %q", err, requests[0].bytes)
	}
	var got bson.D
	if err := bson.Unmarshal(msg.Body.Of(requests[0].bytes), &got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i, e := range got {
		keys = append(keys, e.Key)
		if e.Key == "compression" {
			continue
		}
		want, _ := bson.Marshal(bson.D{sent[i]})
		if have, _ := bson.Marshal(bson.D{e}); !bytes.Equal(want, have) {
			t.Errorf("%s was changed to %v", e.Key, e.Value)
		}
	}
	if !slices.Equal(keys, []string{"hello", "$db", "compression", "speculativeAuthenticate", "client"}) {
		t.Errorf("the server got %v", keys)
	}
}

// A client that offered nothing is never told of compression, neither when it polls nor in the stream of
// replies to an awaitable hello.
func TestNothingShownInPollsAndStreams(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	first := raw.run(plain, hello())
	version := first.doc.Lookup("topologyVersion").Document()
	await := append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 100})
	check := func(a answer) {
		t.Helper()
		if _, err := a.doc.LookupErr("compression"); err == nil || !a.ok() {
			t.Errorf("the client sees %v", a.doc)
		}
	}
	check(raw.run(plain, hello()))
	check(raw.run(plain, await))
	id := raw.send(plain, uint32(wire.ExhaustAllowed), await)
	for range 3 {
		a := raw.receive()
		if a.header.ResponseTo != id {
			t.Fatalf("a reply to %d, not to %d", a.header.ResponseTo, id)
		}
		check(a)
		id = a.header.RequestID
	}
	if _, replies := tap.take(); len(replies) < 6 || !bytes.Contains(replies[2].bytes, []byte("topologyVersion")) {
		t.Errorf("the server sent %d replies", len(replies))
	}
}

// A rewritten hello has a correct checksum, and so has its reply.
func TestChecksumOfHello(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.last++
	raw.write(opMsg(raw.last, uint32(wire.ChecksumPresent), hello("zlib")))
	a := raw.receive() // checks the checksum
	if !a.ok() || a.flags&uint32(wire.ChecksumPresent) == 0 || strings.Join(a.compression(), " ") != "zlib" {
		t.Errorf("flags %x, %v", a.flags, a.doc)
	}
}
