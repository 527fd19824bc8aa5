package plan

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// meter forwards connections to a server and counts their bytes.
type meter struct {
	addr  string
	bytes atomic.Int64
}

func startMeter(t testing.TB, server string) *meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, nil, err)
	t.Cleanup(func() { _ = l.Close() })
	m := &meter{addr: l.Addr().String()}
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
			for _, ends := range [][2]net.Conn{{c, s}, {s, c}} {
				go func() {
					_, _ = io.Copy(ends[0], io.TeeReader(ends[1], m))
					_ = ends[0].Close()
				}()
			}
		}
	}()
	return m
}

// Write counts the bytes.
func (m *meter) Write(p []byte) (int, error) {
	m.bytes.Add(int64(len(p)))
	return len(p), nil
}

func mongoDocument(r *rand.Rand, id int) bson.D {
	return bson.D{
		{Key: "_id", Value: id},
		{Key: "customer", Value: r.IntN(1e6)},
		{Key: "status", Value: []string{"new", "paid", "shipped", "done"}[r.IntN(4)]},
		{Key: "created", Value: bson.DateTime(1763800000000 + r.Int64N(1e10))},
		{Key: "total", Value: float64(r.IntN(30000)) / 100},
		{Key: "lines", Value: bson.A{
			bson.D{{Key: "sku", Value: fmt.Sprintf("SKU-%06d", r.IntN(1e6))}, {Key: "quantity", Value: r.IntN(9)}},
			bson.D{{Key: "sku", Value: fmt.Sprintf("SKU-%06d", r.IntN(1e6))}, {Key: "quantity", Value: r.IntN(9)}},
		}},
		{Key: "note", Value: text(r, 10+r.IntN(8))},
	}
}

// work is an application's load: numbers of finds of batch documents, of finds of one, and of inserts of
// per documents.
type work struct{ finds, batch, ones, inserts, per int }

func (w work) exchanges() int { return w.finds + w.ones + w.inserts }

func (w work) do(t testing.TB, c *mongo.Client, r *rand.Rand, id *int) {
	t.Helper()
	ctx, orders := t.Context(), c.Database("shop").Collection("orders")
	for range w.finds {
		cursor, err := orders.Find(ctx, bson.D{{Key: "customer", Value: bson.D{{Key: "$gt", Value: r.IntN(500000)}}}}, options.Find().SetLimit(int64(w.batch)))
		must(t, nil, err)
		var docs []bson.Raw
		must(t, nil, cursor.All(ctx, &docs))
		if len(docs) != w.batch {
			t.Fatalf("%d documents, want %d", len(docs), w.batch)
		}
	}
	for range w.ones {
		must(t, nil, orders.FindOne(ctx, bson.D{{Key: "_id", Value: r.IntN(*id)}}).Err())
	}
	for range w.inserts {
		var docs []any
		for range w.per {
			docs = append(docs, mongoDocument(r, *id))
			*id++
		}
		_, err := orders.InsertMany(ctx, docs)
		must(t, nil, err)
	}
}

func mongoClient(t testing.TB, addr string) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true&serverMonitoringMode=poll").SetMaxPoolSize(1))
	must(t, nil, err)
	t.Cleanup(func() { _ = c.Disconnect(t.Context()) })
	must(t, nil, c.Ping(t.Context(), nil))
	return c
}

// carried returns the bytes that the work transfers through a meter.
func carried(t testing.TB, m *meter, addr string, w work, r *rand.Rand, id *int) int64 {
	t.Helper()
	c := mongoClient(t, addr)
	warm := w // a gateway estimates from earlier replies
	warm.finds, warm.ones, warm.inserts = min(w.finds, 5), min(w.ones, 20), min(w.inserts, 5)
	warm.do(t, c, r, id)
	start := m.bytes.Load()
	w.do(t, c, r, id)
	return m.bytes.Load() - start
}

// The plan's prediction of bytes on the link, before and after, equals those that a gateway with the
// written configuration transfers: with the profiler for mixed operations, without it for uniform ones.
func TestPlanPredictsWhatTheMongoGatewayCarries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work    work
		profile bool
	}{
		"profiler": {work{finds: 60, batch: 100, ones: 300, inserts: 200, per: 1}, true},
		"counters": {work{finds: 100, batch: 100, inserts: 40, per: 50}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "counters" { // TestPlanMongoSinglesBesideScans covers them too
				testenv.Full(t)
			}
			server := mongotest.Start(t, mongotest.Config{})
			r, id := rand.New(rand.NewPCG(5, 5)), 0
			direct := server.Client(t)
			load := work{inserts: 60, per: 50}
			load.do(t, direct, r, &id)
			if c.profile {
				must(t, nil, direct.Database("shop").RunCommand(t.Context(), bson.D{{Key: "profile", Value: 2}}).Err())
			}
			c.work.do(t, direct, r, &id)
			file := filepath.Join(t.TempDir(), "cinch.yaml")
			p := report(t, server.URI(), "--write", file, "--listen", "127.0.0.1:0", "--match", "shop.orders", "--share", "90%")
			t.Logf("planned in %.1f s", float64(p.LookedAt.Took))
			var before, after, n float64
			for _, g := range p.Groups {
				count := map[string]int{"find": c.work.finds + c.work.ones, "insert": c.work.inserts}[g.Type]
				n += float64(count)
				before += g.Mean * float64(count)
				if o := g.Chosen(); o != nil {
					after += o.StoredMean * float64(count)
				} else {
					after += g.Mean * float64(count)
				}
			}
			if int(n) != c.work.exchanges() {
				t.Fatalf("groups: %+v", p.Groups)
			}
			if e := cinch(t, "config", "check", file); e.code != 0 {
				t.Fatalf("config check: %s%s", e.out, e.err)
			}
			written, err := os.ReadFile(file)
			must(t, nil, err)
			_, rules, ok := strings.Cut(string(written), "    rules:\n")
			if !ok || !strings.Contains(rules, "shop.orders") {
				t.Fatalf("%s", written)
			}
			m := startMeter(t, server.Addr)
			plain := carried(t, m, m.addr, c.work, r, &id)
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: "mongodb://" + m.addr, Protocol: "mongo", Rules: dedent(rules)})
			sealed := carried(t, m, gateway.Addr, c.work, r, &id)
			t.Logf("plain %d predicted, %d carried (%.2f%%); with the gateway %d predicted, %d carried (%.2f%%)",
				int(before), plain, 100*off(int64(before), plain), int(after), sealed, 100*off(int64(after), sealed))
			if off(int64(before), plain) > 0.03 || off(int64(after), sealed) > 0.03 {
				t.Errorf("more than 3%% off")
			}
			if float64(sealed) > 0.6*float64(plain) {
				t.Errorf("%d bytes of %d", sealed, plain)
			}
		})
	}
}

func dedent(rules string) string {
	var b strings.Builder
	for line := range strings.Lines(rules) {
		b.WriteString(strings.TrimPrefix(line, "      "))
	}
	return b.String()
}

// The role read is enough for a plan, and clusterMonitor adds rates. Missing permissions are reported, and
// passwords are not.
func TestPlanMongoRights(t *testing.T) {
	t.Parallel()
	server := mongotest.Start(t, mongotest.Config{Args: []string{"--auth"}})
	client := server.Client(t)
	user := func(name string, roles bson.A) {
		t.Helper()
		create := bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: roles}}
		must(t, nil, client.Database("admin").RunCommand(t.Context(), create).Err())
	}
	user("root", bson.A{"root"})
	var err error
	client, err = mongo.Connect(options.Client().ApplyURI("mongodb://root:secret@" + server.Addr + "/?directConnection=true"))
	must(t, nil, err)
	defer func() { _ = client.Disconnect(t.Context()) }()
	read := bson.D{{Key: "role", Value: "read"}, {Key: "db", Value: "shop"}}
	user("reader", bson.A{read})
	user("nobody", bson.A{})
	id := 0
	work{inserts: 10, per: 50}.do(t, client, rand.New(rand.NewPCG(1, 1)), &id)
	must(t, nil, client.Database("shop").CreateCollection(t.Context(), "none"))
	r := report(t, "mongodb://reader:secret@"+server.Addr+"/?directConnection=true&authSource=admin")
	notes := strings.Join(r.Notes, "\n")
	if len(r.Groups) == 0 || !strings.Contains(notes, "clusterMonitor") || strings.Contains(r.Source, "secret") {
		t.Errorf("%s: %+v\n%s", r.Source, r.Groups, notes)
	}
	if r.Groups[0].Type != "insert" || r.Groups[0].Values != 10 {
		t.Errorf("%+v", r.Groups[0])
	}
	if paired := report(t, "mongodb://reader:secret@"+server.Addr+"/?directConnection=true&authSource=admin", "--pair"); !choosesPair(paired) {
		t.Errorf("%+v", paired.Groups[0])
	}
	for _, c := range []struct {
		url, says string
		code      int
	}{
		{"mongodb://nobody:secret@" + server.Addr + "/?directConnection=true&authSource=admin", "role read", 1},
		{"mongodb://reader:wrong@" + server.Addr + "/shop?directConnection=true&authSource=admin", "put user and password", 1},
		{"mongodb://" + server.Addr + "/shop?directConnection=true", "role read", 1},
		{"mongodb://reader:secret@" + server.Addr + "/?directConnection=maybe", "write mongodb://", 2},
		{"mongodb://reader:secret@127.0.0.1:1/?directConnection=true", "is the server running", 10},
		{"mongodb://reader:secret@" + server.Addr + "/empty?directConnection=true&authSource=admin", "role read", 1},
	} {
		e := cinch(t, "plan", c.url)
		if e.code != c.code || !strings.Contains(e.err, c.says) || strings.Contains(e.err, "secret") || strings.Contains(e.err, "wrong@") {
			t.Errorf("%s ended with %d: %s", c.url, e.code, e.err)
		}
	}
}

func choosesPair(r plan.Report) bool {
	o := r.Groups[0].Chosen()
	return o != nil && strings.HasPrefix(o.Name, "pair ")
}

// The workload mixes single documents and large scans, which the server counts together. The plan's range,
// or its estimate with the profiler, must contain the bytes that a meter on the link counted for each, and
// the share that a gateway saves. In the past, plans gave single documents the saving of scans.
func TestPlanMongoSinglesBesideScans(t *testing.T) {
	t.Parallel()
	const singles, scans, scanned = 200, 10, 300
	for _, c := range []struct {
		name  string
		args  []string // of mongod
		root  string   // credentials for the workload
		user  string   // credentials for the plan
		setup func(t *testing.T, c *mongo.Client)
		exact bool
	}{
		{name: "counters"},
		{name: "profiler", exact: true, setup: func(t *testing.T, c *mongo.Client) {
			must(t, nil, c.Database("shop").RunCommand(t.Context(), bson.D{{Key: "profile", Value: 2}}).Err())
		}},
		{name: "role read", args: []string{"--auth"}, root: "root:secret@", user: "reader:secret@"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "counters" { // TestPlanPredictsWhatTheMongoGatewayCarries covers the profiler too
				testenv.Full(t)
			}
			t.Parallel()
			server := mongotest.Start(t, mongotest.Config{Args: c.args})
			r, id := rand.New(rand.NewPCG(8, 8)), 0
			if c.root != "" {
				first := server.Client(t).Database("admin")
				must(t, nil, first.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}}).Err())
			}
			direct := mongoClient(t, c.root+server.Addr)
			if c.user != "" {
				roles := bson.A{bson.D{{Key: "role", Value: "read"}, {Key: "db", Value: "shop"}}}
				must(t, nil, direct.Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "reader"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: roles}}).Err())
			}
			for _, name := range []string{"orders", "events"} {
				for range 3 {
					var docs []any
					for range scanned {
						docs = append(docs, mongoDocument(r, id))
						id++
					}
					_, err := direct.Database("shop").Collection(name).InsertMany(t.Context(), docs)
					must(t, nil, err)
				}
			}
			if c.setup != nil {
				c.setup(t, direct)
			}
			m := startMeter(t, server.Addr)
			work := func(client *mongo.Client) map[string]int64 {
				seen := map[string]int64{}
				start := m.bytes.Load()
				for range singles {
					must(t, nil, client.Database("shop").Collection("orders").FindOne(t.Context(), bson.D{{Key: "_id", Value: r.IntN(3 * scanned)}}).Err())
				}
				seen["shop.orders"] = m.bytes.Load() - start
				start = m.bytes.Load()
				for range scans {
					cursor, err := client.Database("shop").Collection("events").Find(t.Context(), bson.D{}, options.Find().SetLimit(scanned).SetBatchSize(scanned+1))
					must(t, nil, err)
					var docs []bson.Raw
					must(t, nil, cursor.All(t.Context(), &docs))
					if len(docs) != scanned {
						t.Fatalf("%d documents", len(docs))
					}
				}
				seen["shop.events"] = m.bytes.Load() - start
				return seen
			}
			plain := work(mongoClient(t, c.root+m.addr))
			url := "mongodb://" + c.user + server.Addr + "/shop?directConnection=true&authSource=admin"
			groups := findGroups(report(t, url, "--share", "90%"))
			again := findGroups(report(t, url, "--share", "90%"))
			gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: "mongodb://" + m.addr, Protocol: "mongo", Rules: "- {name: all, setting: zstd-3}"})
			sealed := work(mongoClient(t, c.root+gateway.Addr))
			for name, n := range map[string]float64{"shop.orders": singles, "shop.events": scans} {
				g := groups[name]
				if g == nil || again[name] == nil {
					t.Fatalf("%s: no group of finds among %v", name, groups)
				}
				saved := 1 - float64(sealed[name])/float64(plain[name])
				t.Logf("%s: %d carried, %.0f%% saved; plan: %v finds, %d ± %d, %+v", name, plain[name], 100*saved, g.Values, g.Now, g.Margin, g.Range)
				if c.exact {
					if g.Range != nil || off(g.Now, plain[name]) > 0.03 {
						t.Errorf("%s: the profiler's %d bytes, %d carried (%+v)", name, g.Now, plain[name], g.Range)
					}
					continue
				}
				if g.Range == nil || g.Range.Low.Now > plain[name] || g.Range.High.Now < plain[name] {
					t.Errorf("%s: %d bytes carried, planned %+v", name, plain[name], g.Range)
				} else if g.Range.SavesLow > saved+0.03 || g.Range.SavesHigh < saved-0.03 {
					t.Errorf("%s: %.1f%% saved, planned %+v", name, 100*saved, g.Range)
				}
				if c.user == "" && (g.Values != n || again[name].Values != n) {
					t.Errorf("%s: %v finds, and then %v: of the workload are %v", name, g.Values, again[name].Values, n)
				}
			}
		})
	}
}

// findGroups returns the groups of finds by collection.
func findGroups(r plan.Report) map[string]*plan.GroupPlan {
	groups := map[string]*plan.GroupPlan{}
	for _, g := range r.Groups {
		if g.Type == "find" {
			groups[g.Pattern] = g
		}
	}
	return groups
}
