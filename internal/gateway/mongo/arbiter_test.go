package mongo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// arbiterHello holds fields of the reply to a hello.
type arbiterHello struct {
	SetName, Me                  string
	Hosts, Arbiters              []string
	ArbiterOnly, Secondary       bool
	IsMaster                     bool `bson:"ismaster"`
	IsWritablePrimary            bool
	TopologyVersion, Compression any
	MaxWireVersion               int
	LogicalSessionTimeoutMinutes any
}

// A standby answers as an arbiter at its address: it names the gateways of its process and the standbys of
// others, and refuses operations.
func TestStandby(t *testing.T) {
	server := replicaSet(t)
	shared := &Topology{}
	member := serve(t, server.Addr, withZstd, func(c *Config) { c.Topology = shared })
	up := member.cfg.Upstream
	s := serve(t, "", withZstd, func(c *Config) {
		c.Topology, c.Members, c.Standby = shared, []endpoint.Upstream{{Network: "tcp", Address: "127.0.0.1:1"}, up}, []string{"other:7"}
	})
	testenv.Eventually(t, "the standbys are named", func() bool { return len(shared.standbysOf("rs0")) > 0 })
	var said arbiterHello
	ask := func(addr string, m []byte) {
		t.Helper()
		raw := dialRaw(t, addr)
		raw.write(m)
		said = arbiterHello{}
		if err := bson.Unmarshal(raw.receive().doc, &said); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range [][]byte{opMsg(1, 0, hello("zstd")), opQuery(1, bson.D{{Key: "isMaster", Value: 1}})} {
		ask(s.addr, m)
		if !said.ArbiterOnly || said.Secondary || said.IsMaster || said.IsWritablePrimary || said.SetName != "rs0" || said.Me != s.addr || said.MaxWireVersion == 0 {
			t.Errorf("%+v", said)
		}
		if !slices.Equal(said.Hosts, []string{member.addr}) || !slices.Equal(said.Arbiters, []string{"other:7"}) || said.TopologyVersion != nil || said.Compression != nil {
			t.Errorf("%+v", said)
		}
	}
	if ask(member.addr, opMsg(1, 0, hello())); said.ArbiterOnly || !slices.Equal(said.Hosts, []string{member.addr}) || !slices.Equal(said.Arbiters, []string{"other:7"}) {
		t.Errorf("a member: %+v", said)
	}
	raw := dialRaw(t, s.addr)
	raw.last++
	raw.write(opMsg(raw.last, uint32(wire.MoreToCome), command("insert", "users")))
	for _, c := range []string{"insert", "find", "saslStart"} {
		if code, _ := raw.run(plain, command(c, "users")).doc.Lookup("code").AsInt64OK(); code != codeNotPrimaryOrSecondary {
			t.Errorf("%s: code %d", c, code)
		}
	}
	if !raw.run(plain, command("ping", 1)).ok() {
		t.Error("no ping")
	}
	raw.write(raw.compress(wire.Snappy, opMsg(99, 0, hello())))
	raw.ended()
	alone := serve(t, "", withZstd, func(c *Config) {
		c.Members, c.Standby = []endpoint.Upstream{{Network: "tcp", Address: "127.0.0.1:1"}}, []string{"other:7"}
	})
	raw = dialRaw(t, alone.addr)
	raw.write(opMsg(1, 0, hello()))
	raw.ended()
}

func TestWatcherAnswers(t *testing.T) {
	p := newParts(t, nil)
	doc, _ := bson.Marshal(bson.D{{Key: "hosts", Value: bson.A{"db0:1"}}, {Key: "setName", Value: "rs"}, {Key: "secondary", Value: true}, {Key: "ok", Value: 1}})
	p.g.addresses.learnMember("db0:1")
	s := &standby{addresses: p.g.addresses, ctx: t.Context(), doc: doc, set: "rs", askedAt: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		doc  bson.D
		want string
	}{
		{hello(), "arbiterOnly"},
		{command("ping", 1), ""},
		{command("find", "users"), "NotPrimaryOrSecondary"},
	} {
		w := newWatcher(s, p.client, nil, p.stats)
		b := opMsg(1, 0, c.doc)
		h, _ := wire.ParseHeader(b)
		p.client.told.Reset()
		if err := w.answer(message{received: b, header: h, compressor: plain}); err != nil {
			t.Fatal(err)
		}
		got := p.client.told.String()
		if !strings.Contains(got, c.want) || strings.Contains(got, "db0:1") || strings.Contains(got, "gateway:27") != (c.want == "arbiterOnly") {
			t.Errorf("to %v: %q", c.doc, got)
		}
	}
}
