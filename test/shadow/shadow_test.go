// Package shadow runs cinch shadow against real servers.
package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// mongod returns a mongod that tests share, one at a time.
func mongod(t *testing.T, name string) *mongotest.Server {
	t.Helper()
	return testenv.Shared(t, name, func(t testing.TB) *mongotest.Server { return mongotest.Start(t, mongotest.Config{}) })
}

// report holds the fields of --json that the tests use.
type report struct {
	Outcome    string
	Reasons    []string
	Operations int
	Compared   struct{ Equal, Different, Diverged int }
	Series     []struct{ Phase string }
	Metrics    []struct {
		Name             string
		Batches          int
		Baseline         int `json:"baseline_batches"`
		Ratio, Low, High float64
	}
}

// hasBothPhases checks that there are batches of the A/A and the test phase.
func (r *report) hasBothPhases(t *testing.T) {
	t.Helper()
	phases := map[string]int{}
	for _, p := range r.Series {
		phases[p.Phase]++
	}
	if phases["A/A"] == 0 || phases["test"] == 0 {
		t.Errorf("batches by phase: %v", phases)
	}
}

// mirror runs cinch shadow until ctx ends, and returns its report and exit code.
func mirror(ctx context.Context, t *testing.T, args ...string) (*report, int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, testenv.Cinch(t), append([]string{"shadow", "--json", "--exit", "--self-test=false"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatalf("cinch shadow: %v\n%s", err, errs.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s\n%s", err, out.String(), errs.String())
	}
	return &r, cmd.ProcessState.ExitCode()
}

// Through a Cinch gateway answers are the same, and the run has both phases. Latencies on this machine are
// not compared.
func TestRedisThroughCinch(t *testing.T) {
	production, control, test := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { menus(ctx, addr) })
	r, code := mirror(t.Context(), t, "--redis", addr+"="+production.URL(), "--control", control.URL(), "--test", "cinch="+test.URL(),
		"--batch", "200ms", "--baseline", "5", "--batches", "10", "--bound", "1m", "--margin-p50", "1", "--margin-p99", "1")
	cancel()
	clients.Wait()
	t.Logf("exit code %d: %+v", code, r)
	if r.Outcome == "VOID" || r.Compared.Different > 0 || r.Compared.Diverged > 0 || r.Compared.Equal == 0 {
		t.Errorf("%s %q: %+v", r.Outcome, r.Reasons, r.Compared)
	}
	r.hasBothPhases(t)
	direct := goredis.NewClient(&goredis.Options{Addr: test.Addr})
	defer direct.Close()
	sealed := 0
	for _, key := range direct.Keys(t.Context(), "menu:*").Val() {
		if v := direct.Get(t.Context(), key).Val(); !strings.HasPrefix(v, `{"restaurant"`) {
			sealed++
		}
	}
	if sealed == 0 {
		t.Error("no value at the test target is sealed")
	}
}

// menus writes and reads until ctx ends, with a pause that lets a busy machine keep up.
func menus(ctx context.Context, addr string) {
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: 1})
	defer c.Close()
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint("menu:", i%50)
		c.Set(ctx, key, fmt.Sprintf(`{"restaurant": %d, "dishes": [%s]}`, i, strings.Repeat(`{"name": "noodles", "price": 12},`, 20)), 0)
		c.Get(ctx, key)
		time.Sleep(8 * time.Millisecond)
	}
}

// The same with MongoDB. The gateway changes no document, so the data are equal.
func TestMongoThroughCinch(t *testing.T) {
	production, control, test := mongod(t, "production"), mongod(t, "control"), mongod(t, "test")
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 2 {
		clients.Go(func() { orders(ctx, t, addr, fmt.Sprint("orders", i)) })
	}
	r, code := mirror(t.Context(), t, "--mongo", addr+"="+production.URI(), "--control", control.URI(), "--test", "cinch="+test.URI(),
		"--batch", "500ms", "--baseline", "3", "--batches", "6", "--bound", "1m", "--margin-p50", "1", "--margin-p99", "1")
	cancel()
	clients.Wait()
	t.Logf("exit code %d: %+v", code, r)
	if r.Outcome == "VOID" || r.Compared.Different > 0 || r.Compared.Diverged > 0 || r.Compared.Equal == 0 {
		t.Errorf("%s %q: %+v", r.Outcome, r.Reasons, r.Compared)
	}
	r.hasBothPhases(t)
	if sent, _ := test.Compressed(t, "zstd"); sent.Out == 0 {
		t.Error("the test target compressed nothing: the gateway was not in front of it")
	}
}

// orders writes and reads until ctx ends.
func orders(ctx context.Context, t *testing.T, addr, collection string) {
	o := options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true").SetServerSelectionTimeout(time.Minute)
	c, err := mongo.Connect(o)
	if err != nil {
		t.Error(err)
		return
	}
	// Ctx has ended, so no server is asked to end sessions; none is running any more.
	defer func() { _ = c.Disconnect(ctx) }()
	all := c.Database("shop").Collection(collection)
	dishes := strings.Repeat("noodles with everything, ", 40)
	for i := 0; ctx.Err() == nil; i++ {
		id := bson.M{"_id": i % 50}
		_, _ = all.UpdateOne(ctx, id, bson.M{"$set": bson.M{"n": i, "dishes": dishes}}, options.UpdateOne().SetUpsert(true))
		_ = all.FindOne(ctx, id)
		time.Sleep(4 * time.Millisecond)
	}
}
