package mongo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/mongotest"
)

func healthy(name string) *server {
	s := &server{name: name, known: true, version: "6.0.5", numbers: []int{6, 0, 5, 0}, collections: map[string]collection{"shop.users": {indexes: "i", documents: 1000}}}
	s.Writable, s.Topology.Process = true, bson.NewObjectID()
	return s
}

func TestFindings(t *testing.T) {
	users := func(s *server, change func(*collection)) {
		c := s.collections["shop.users"]
		change(&c)
		s.collections["shop.users"] = c
	}
	all := []right{{Actions: needed}}
	for name, c := range map[string]struct {
		change func(production, control, test *server)
		want   string // of a problem; "": none
	}{
		"all is well":          {func(_, _, _ *server) {}, ""},
		"a secondary":          {func(_, _, t *server) { t.Writable = false }, "test is a secondary"},
		"a mongos":             {func(p, _, _ *server) { p.Msg = "isdbgrid" }, "production is a mongos"},
		"an old server":        {func(p, c, t *server) { p.numbers = []int{4, 4, 1, 0} }, "mirror servers from 5.1 on"},
		"an older target":      {func(p, _, _ *server) { p.numbers, p.version = []int{7, 0, 1, 0}, "7.0.1" }, "control has MongoDB 6.0.5, production 7.0.1"},
		"a newer target":       {func(_, _, t *server) { t.numbers = []int{8, 0, 0, 0} }, ""},
		"missing data":         {func(p, _, _ *server) { users(p, func(c *collection) { c.documents = 5000 }) }, "shop.users (1000, 5000)"},
		"data that came since": {func(p, _, _ *server) { users(p, func(c *collection) { c.documents = 1050 }) }, ""},
		"unequal targets":      {func(_, _, t *server) { users(t, func(c *collection) { c.documents = 1001 }) }, "have different numbers of documents: shop.users"},
		"a missing collection": {func(_, c, _ *server) { delete(c.collections, "shop.users") }, "control lacks collections: shop.users"},
		"a missing index":      {func(_, _, t *server) { users(t, func(c *collection) { c.indexes = "" }) }, "test has different indexes or options"},
		"other validators":     {func(_, _, t *server) { users(t, func(c *collection) { c.options = "v" }) }, "collections of the targets differ"},
		"production as target": {func(p, c, _ *server) { c.Topology.Process = p.Topology.Process }, "control is production itself"},
		"one server":           {func(_, c, t *server) { c.Topology.Process = t.Topology.Process }, "control and test are the same server"},
		"a full disk":          {func(_, _, t *server) { t.fullest = 0.99 }, "the disk of test is 99 % full"},
		"a user of one database": {func(_, c, _ *server) {
			c.user, c.rights = "mirror", all
			c.rights[0].Resource.DB = "shop"
		}, "control: the user mirror may not find in cinch_shadow"},
		"a login is missing": {func(p, _, _ *server) { p.known, p.collections = false, nil }, ""},
	} {
		p, con, test := healthy("production"), healthy("control"), healthy("test")
		c.change(p, con, test)
		problems := ""
		for _, f := range findings(p, con, test) {
			if f.Problem {
				problems += f.Text + " " + f.Hint + "\n"
			}
		}
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s: problems are %q, not %q", name, problems, c.want)
		}
	}
}

// A disk that a server shows nothing about is reported as not checked.
func TestFindingsOfUnknownDisk(t *testing.T) {
	known := healthy("control")
	known.fullest = 0.5
	all := fmt.Sprint(findings(healthy("production"), known, healthy("test")))
	if !strings.Contains(all, "test: its free disk space could not be checked") || strings.Contains(all, "control: its free disk space") {
		t.Error(all)
	}
}

// On real servers, differences are found and described for people, and nothing is left behind.
func TestCheck(t *testing.T) {
	b := &bench{production: startServer(t, "rs0", "production"), control: startServer(t, "", "control"), test: startServer(t, "", "test")}
	ctx := t.Context()
	for i, s := range []*mongotest.Server{b.production, b.control, b.test} {
		db := s.Client(t).Database("shop")
		if _, err := db.Collection("users").InsertOne(ctx, m{"_id": 1, "text": strings.Repeat("x", 1000)}); err != nil {
			t.Fatal(err)
		}
		index := mongo.IndexModel{Keys: m{"at": 1}, Options: options.Index().SetExpireAfterSeconds(3600)}
		_, _ = db.Collection("users").Indexes().CreateOne(ctx, index)
		if i < 2 {
			_, _ = db.Collection("orders").InsertOne(ctx, m{"_id": 1})
		}
	}
	b.start(t, func(c *shadow.Config) { c.Batch = time.Hour })
	found, err := b.run.Check(ctx, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{false production: MongoDB ", "replica set rs0 of 1", "1 with zstd", "{true test lacks collections: shop.orders", "documents expire in these collections, where differences do not count: shop.users",
		"collectionConfig.blockCompressor", "self-test", "control is not a replica set",
	} {
		if !strings.Contains(fmt.Sprint(found), want) {
			t.Errorf("%q is not in %s", want, fmt.Sprint(found))
		}
	}
	for _, s := range []*mongotest.Server{b.production, b.control, b.test} {
		if left, err := s.Client(t).ListDatabaseNames(ctx, m{"name": scratchDB}); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	if err := b.run.Apart(ctx); err != nil {
		t.Error(err)
	}
}

// A target that is production by another name is detected.
func TestProductionAsTarget(t *testing.T) {
	s, other := startServer(t, "", "production"), startServer(t, "", "control")
	up := upstream(t, strings.Replace(s.URI(), "127.0.0.1", "localhost", 1))
	p := &Protocol{}
	production := &shadow.Target{Name: "production", Upstream: upstream(t, s.URI())}
	if !p.Same(t.Context(), production, &shadow.Target{Name: "test", Upstream: up}) {
		t.Error("production is not recognised")
	}
	if p.Same(t.Context(), production, &shadow.Target{Name: "test", Upstream: upstream(t, other.URI())}) {
		t.Error("another server is taken for production")
	}
}
