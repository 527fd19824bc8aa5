package mongo

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestGatewaysAsMembers checks a replica set with the gateways' addresses as hosts in rs.conf(), so that
// members reach each other through gateways too. Drivers see the same names, and nothing is rewritten.
func TestGatewaysAsMembers(t *testing.T) {
	t.Parallel()
	var servers []*mongotest.Server
	var hosts []string
	for range 2 {
		s := mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0", Uninitiated: true})
		servers, hosts = append(servers, s), append(hosts, s.Addr)
	}
	g := serve(t, "mongodb://"+strings.Join(hosts, ","), "", "")
	gateways := strings.Split(listeners(t, g, len(servers)), ",")
	servers[0].Initiate(t, gateways...)
	c := connect(t, "mongodb://"+g.Addr+"/?replicaSet=rs0&w=2")
	coll := c.Database("shop").Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(500)); err != nil {
		t.Fatal(err)
	}
	var hello struct {
		Hosts       []string
		Me, Primary string
	}
	if err := c.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		t.Fatal(err)
	}
	slices.Sort(hello.Hosts)
	slices.Sort(gateways)
	if !slices.Equal(hello.Hosts, gateways) || !slices.Contains(gateways, hello.Me) || !slices.Contains(gateways, hello.Primary) {
		t.Errorf("drivers hear of %+v, the gateways are %v", hello, gateways)
	}
	for i, s := range servers {
		n, err := s.Client(t).Database("shop").Collection("things").CountDocuments(t.Context(), bson.D{})
		if err != nil || n != 500 {
			t.Errorf("member %d has %d documents, %v", i, n, err)
		}
	}
}

// asMongos forwards to a standalone mongod, which does not support retryable writes, and makes it appear as
// a mongos. The package that tests install has no mongos.
func asMongos(t *testing.T, server string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(s, c); _ = s.Close() }()
			go func() { claimMongos(c, s); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// claimMongos copies replies and adds the fields of a mongos to those of handshakes.
func claimMongos(c io.Writer, s io.Reader) {
	for {
		m := make([]byte, wire.HeaderLen)
		if _, err := io.ReadFull(s, m); err != nil {
			return
		}
		h, err := wire.ParseHeader(m)
		if err != nil {
			return
		}
		m = append(m, make([]byte, h.Length-wire.HeaderLen)...)
		if _, err := io.ReadFull(s, m[wire.HeaderLen:]); err != nil {
			return
		}
		if _, err := c.Write(withIsdbgrid(h, m)); err != nil {
			return
		}
	}
}

func withIsdbgrid(h wire.Header, m []byte) []byte {
	at := wire.HeaderLen + 5 // start of the document: after flags and section kind
	if h.OpCode == wire.OpReply {
		at = wire.HeaderLen + 20
	}
	if h.OpCode == wire.OpCompressed || len(m) < at {
		return m
	}
	var doc bson.D
	if err := bson.Unmarshal(m[at:], &doc); err != nil {
		return m
	}
	if !slices.ContainsFunc(doc, func(e bson.E) bool { return e.Key == "maxWireVersion" }) {
		return m
	}
	body, err := bson.Marshal(append(doc, bson.E{Key: "msg", Value: "isdbgrid"}))
	if err != nil {
		return m
	}
	m = append(m[:at:at], body...)
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	return m
}

// TestMongos puts a gateway in front of each of two mongos, as docs/MONGODB.md describes. The driver
// recognizes them as mongos, and uses both.
func TestMongos(t *testing.T) {
	server := standalone(t)
	var gateways []*testenv.GatewayServer
	var addrs []string
	for range 2 {
		g := serve(t, "mongodb://"+asMongos(t, server.Addr), "", "")
		gateways, addrs = append(gateways, g), append(addrs, g.Addr)
	}
	found := make(chan struct{})
	known := sync.OnceFunc(func() { close(found) })
	// A driver chooses among the servers within the local threshold the one with the fewest operations in
	// progress. The threshold of an hour includes both.
	o := options.Client().ApplyURI("mongodb://" + strings.Join(addrs, ",") + "/?retryWrites=false&retryReads=false").SetLocalThreshold(time.Hour)
	o.SetServerMonitor(&event.ServerMonitor{TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
		is := func(s event.ServerDescription) bool { return s.Kind == "Mongos" }
		if d := e.NewDescription; d.Kind == "Sharded" && len(d.Servers) == 2 && is(d.Servers[0]) && is(d.Servers[1]) {
			known()
		}
	}})
	// The first two finds wait for each other, so the second uses the mongos without an operation in
	// progress.
	started, proceed := make(chan string), make(chan struct{})
	o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName != "find" {
			return
		}
		select {
		case started <- e.ConnectionID:
			<-proceed
		case <-proceed:
		}
	}})
	c, err := mongo.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Disconnect(t.Context()) }()
	proceeds := sync.OnceFunc(func() { close(proceed) })
	defer proceeds()
	hang := time.After(time.Minute)
	select {
	case <-found:
	case <-hang:
		t.Fatal("the driver does not see two mongos")
	}
	coll := c.Database(t.Name()).Collection("things")
	if _, err := coll.InsertMany(t.Context(), documents(500)); err != nil {
		t.Fatal(err)
	}
	find := func() {
		cursor, err := coll.Find(t.Context(), bson.D{})
		if err != nil {
			t.Error(err)
			return
		}
		var all []bson.Raw
		if err := cursor.All(t.Context(), &all); err != nil || len(all) != 500 {
			t.Error(len(all), err)
		}
	}
	var clients sync.WaitGroup
	var used []string
	for range gateways {
		clients.Go(find)
		select {
		case id := <-started:
			addr, _, _ := strings.Cut(id, "[")
			used = append(used, addr)
		case <-hang:
			t.Fatal("the driver sends no find")
		}
	}
	proceeds()
	if slices.Sort(used); !slices.Equal(used, slices.Sorted(slices.Values(addrs))) {
		t.Errorf("the driver uses %v of %v", used, addrs)
	}
	for range 8 { // at the same time, so that the driver balances
		clients.Go(func() {
			for range 20 {
				find()
			}
		})
	}
	clients.Wait()
	for i, g := range gateways {
		if raw, stored := g.Metric(t, "cinch_value_raw_bytes_total"), g.Metric(t, "cinch_value_stored_bytes_total"); raw < 3*stored || raw == 0 {
			t.Errorf("gateway %d made %.0f bytes of %.0f", i, stored, raw)
		}
	}
}
