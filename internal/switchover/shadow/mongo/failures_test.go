package mongo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Production steps down in the middle of writes, or crashes, and comes back at its address: acknowledged
// writes, and those that succeeded after retries, are at both targets.
func TestProductionFailsOver(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, s *mongotest.Server){
		"it steps down": func(t *testing.T, s *mongotest.Server) {
			down := bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "secondaryCatchUpPeriodSecs", Value: 0}, {Key: "force", Value: true}}
			if err := s.Client(t).Database("admin").RunCommand(t.Context(), down).Err(); err != nil {
				t.Fatal(err)
			}
		},
		"it is killed": func(t *testing.T, s *mongotest.Server) {
			s.Kill()
			if err := s.Restart(t); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := servers(t, "rs0")
			if name == "it is killed" {
				testenv.Full(t)
				b.production = mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0"})
			}
			b.start(t, nil)
			const writers, before, after = 4, 30, 30
			var met, all sync.WaitGroup
			failed := make(chan struct{})
			met.Add(writers)
			for w := range writers {
				orders := b.client(t).Database("shop").Collection(fmt.Sprint("orders", w))
				all.Go(func() {
					for i := range before {
						insist(t, orders, i)
					}
					met.Done()
					for i := before; i < before+after; i++ {
						insist(t, orders, i)
					}
					<-failed
					insist(t, orders, before+after)
				})
			}
			met.Wait()
			fail(t, b.production)
			close(failed)
			all.Wait()
			if r := b.settle(t); r.Outcome == "VOID" {
				t.Errorf("%q", r.Reasons)
			}
			same(t, b.production, b.control)
			same(t, b.production, b.test)
			for w := range writers {
				if n, err := b.test.Client(t).Database("shop").Collection(fmt.Sprint("orders", w)).CountDocuments(t.Context(), m{}); err != nil || n != before+after+1 {
					t.Errorf("the target has %d of %d, %v", n, before+after+1, err)
				}
			}
		})
	}
}

// insist retries the insert of a document until it succeeds.
func insist(t *testing.T, into *mongo.Collection, id int) {
	testenv.Eventually(t, "the document is written", func() bool {
		_, err := into.InsertOne(t.Context(), m{"_id": id})
		return err == nil || mongo.IsDuplicateKeyError(err)
	})
}

// administrator returns a connection with all rights to a server that requires logins.
func administrator(t *testing.T, s *mongotest.Server) *mongo.Database {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(s.URI()).SetAuth(options.Credential{Username: "root", Password: "r"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c.Database("admin")
}

// A target that fails during a run voids it with a reason, and clients are not affected.
func TestTargetTurnsBad(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s *mongotest.Server)
		why   string
	}{
		"another password": {func(t *testing.T, s *mongotest.Server) {
			mustRun(t, administrator(t, s), bson.D{{Key: "updateUser", Value: "mirror"}, {Key: "pwd", Value: "other"}})
		}, "login: refused: AuthenticationFailed"},
		"rights": {func(t *testing.T, s *mongotest.Server) {
			mustRun(t, administrator(t, s), bson.D{{Key: "updateUser", Value: "mirror"}, {Key: "roles", Value: bson.A{"readAnyDatabase"}}})
		}, "test error Unauthorized"},
		"data that are gone": {func(t *testing.T, s *mongotest.Server) {
			mustRun(t, administrator(t, s).Client().Database("shop"), bson.D{{Key: "drop", Value: "c"}})
		}, "answers differ, the first to update shop.c"},
		"frozen": {func(t *testing.T, s *mongotest.Server) {
			if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) })
		}, "i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another password" || name == "rights" {
				testenv.Full(t)
			}
			b := &bench{production: startServer(t, "", "production"), control: startServer(t, "", "control"), test: locked(t)}
			mustRun(t, administrator(t, b.test), bson.D{{Key: "createUser", Value: "mirror"}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{"root"}}})
			b.start(t, func(cfg *shadow.Config) {
				cfg.Test = upstream(t, "mongodb://mirror:p@"+b.test.Addr)
				if name == "frozen" {
					cfg.Patience = time.Second
				}
			})
			counted := func() *mongo.Collection { return administrator(t, b.test).Client().Database("shop").Collection("c") }
			n := b.countUntil(t, counted, func() { c.spoil(t, b.test) })
			r := b.run.Report()
			if r.Outcome != "VOID" || !strings.Contains(strings.Join(r.Reasons, "; "), c.why) {
				t.Errorf("%s: %q", r.Outcome, r.Reasons)
			}
			t.Logf("%q, ended: %s", r.Reasons, r.Ended)
			if got := writtenTo(t, b.production.Client(t).Database("shop").Collection("c")); got != n {
				t.Errorf("production has %d of %d", got, n)
			}
		})
	}
}

func mustRun(t *testing.T, db *mongo.Database, command bson.D) {
	t.Helper()
	if err := db.RunCommand(t.Context(), command).Err(); err != nil {
		t.Fatalf("%v: %v", command[0].Key, err)
	}
}

// writtenTo returns the count that countUntil has written.
func writtenTo(t *testing.T, c *mongo.Collection) int {
	var doc struct{ N int }
	if err := c.FindOne(t.Context(), m{"_id": 1}).Decode(&doc); err != nil && err != mongo.ErrNoDocuments {
		t.Error(err)
	}
	return doc.N
}

// countUntil increments a document, has a target spoiled, reconnects, and continues until the mirror has
// ended.
func (b *bench) countUntil(t *testing.T, at func() *mongo.Collection, spoil func()) (written int) {
	t.Helper()
	c := b.client(t).Database("shop").Collection("c")
	write := func() {
		if _, err := c.UpdateOne(t.Context(), m{"_id": 1}, m{"$inc": m{"n": 1}}, options.UpdateOne().SetUpsert(true)); err != nil {
			t.Fatal(err)
		}
		written++
	}
	for range 20 {
		write()
	}
	testenv.Eventually(t, "the target has them", func() bool { return writtenTo(t, at()) == 20 })
	spoil()
	write()
	c = b.client(t).Database("shop").Collection("c")
	shadowtest.AwaitOver(t, b.run, write)
	write()
	return written
}

// If a target's disk fills up, clients are not affected, production has all their writes, and the run is void
// with a reason.
func TestTargetWithFullDisk(t *testing.T) {
	testenv.Full(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m,mode=0700"); err != nil {
		t.Skipf("a filesystem of its own can't be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	b := &bench{production: startServer(t, "", "production"), control: startServer(t, "", "control"), test: mongotest.Start(t, mongotest.Config{Dir: dir})}
	b.start(t, nil)
	c := b.client(t).Database("shop").Collection("c")
	if _, err := c.InsertOne(t.Context(), m{"_id": -1}); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "ballast"))
	value := strings.Repeat("v", 100_000)
	n := 0
	testenv.Eventually(t, "the mirror is off", func() bool {
		for range 20 {
			if _, err := c.InsertOne(t.Context(), m{"_id": n, "text": value, "noise": noise(n)}); err != nil {
				t.Fatal(err)
			}
			n++
		}
		select {
		case <-b.run.Over():
			return true
		default:
			return false
		}
	})
	r := b.run.Report()
	t.Logf("%d documents: %q", n, r.Reasons)
	if r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s %q", r.Outcome, r.Reasons)
	}
	if got, err := b.production.Client(t).Database("shop").Collection("c").CountDocuments(t.Context(), m{}); err != nil || int(got) != n+1 {
		t.Errorf("production has %d of %d, %v", got, n+1, err)
	}
}

// noise returns incompressible bytes.
func noise(seed int) []byte {
	out := make([]byte, 100_000)
	x := uint64(seed)*2654435761 + 88172645463325252
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = byte(x)
	}
	return out
}

// fill leaves at most a megabyte of a filesystem, to which a server may be writing meanwhile.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	for step := int64(64 << 20); step >= 1<<20; {
		switch err := syscall.Fallocate(int(f.Fd()), 0, size, step); {
		case err == nil:
			size += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		default:
			t.Fatal(err)
		}
	}
}

// With stopped targets, clients are not affected, memory stays within its bound, and pieces that do not fit
// are counted.
func TestFrozenTargets(t *testing.T) {
	b := newBench(t, "", func(c *shadow.Config) { c.Memory, c.OffTime, c.Patience = 4*shadow.MiB, time.Second, time.Hour })
	for _, s := range []*mongotest.Server{b.control, b.test} {
		if err := syscall.Kill(s.Pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) })
	}
	c := b.client(t, options.Client().SetMaxPoolSize(1)).Database("shop").Collection("c")
	for i := range 1000 {
		if _, err := c.InsertOne(t.Context(), m{"_id": i, "text": strings.Repeat("v", 10_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if held := b.run.Held(); held > 4*shadow.MiB {
		t.Errorf("%d bytes are held", held)
	}
	b.run.Off("enough")
	<-b.run.Over()
	if r := b.run.Report(); r.Dropped == 0 || r.Ended != "enough" {
		t.Errorf("%d connections dropped, ended: %q", r.Dropped, r.Ended)
	}
	if _, err := c.InsertOne(t.Context(), m{"_id": "after"}); err != nil {
		t.Errorf("with the mirror off: %v", err)
	}
}

// A killed target voids the run and turns the mirror off. Production continues.
func TestKilledTarget(t *testing.T) {
	b := servers(t, "")
	b.test = mongotest.Start(t, mongotest.Config{})
	b.start(t, func(c *shadow.Config) { c.Patience = time.Second })
	c := b.client(t).Database("shop").Collection("c")
	b.test.Kill()
	n := 0
	testenv.Eventually(t, "the mirror is off", func() bool {
		n++
		if _, err := c.InsertOne(t.Context(), m{"_id": n}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.run.Over():
			return true
		default:
			return false
		}
	})
	if r := b.run.Report(); r.Outcome != "VOID" || len(r.Reasons) == 0 {
		t.Errorf("%s: %q", r.Outcome, r.Reasons)
	}
	if _, err := c.InsertOne(t.Context(), m{"_id": "after"}); err != nil {
		t.Error(err)
	}
}

// A document that differs at a target is found, and its collection is named without showing data.
func TestDifferentData(t *testing.T) {
	b := newBench(t, "", nil)
	c := b.client(t).Database("shop").Collection("users")
	_, _ = c.InsertOne(t.Context(), m{"_id": 1, "name": "secret"})
	direct := b.test.Client(t).Database("shop").Collection("users")
	testenv.Eventually(t, "the write has come", func() bool {
		n, _ := direct.CountDocuments(t.Context(), m{})
		return n == 1
	})
	_, _ = direct.UpdateOne(t.Context(), m{"_id": 1}, m{"$set": m{"name": "secrets"}})
	_ = c.FindOne(t.Context(), m{"_id": 1})
	shadowtest.FindsOne(t, b.run, "find shop.users {_id}", "secret")
}
