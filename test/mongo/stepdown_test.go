package mongo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// steadyThreads is the number of threads of one client that write and read, each with connections of the
// client's pool.
const steadyThreads = 6

// TestStepDown makes the primary a secondary while clients write and read. With every topology they
// continue with the next primary, and no acknowledged write is lost. Without a gateway drivers do not even
// see an error.
func TestStepDown(t *testing.T) {
	servers := replicaSet(t)
	all := strings.Join(addresses(servers), ",")
	// The topologies that always run; the others run with make full.
	small := []string{"a gateway a member", "load balanced", "a pair, the far one balances"}
	reached := append(topologies(all), topology{"a pair, the far one balances", func(t *testing.T) string {
		far := serve(t, "mongodb://"+all+"/?peers=true&loadBalanced=true", "", "")
		return balanced(serveNear(t, far.Addr).Addr)
	}})
	for _, way := range reached {
		for _, driver := range []struct {
			name  string
			start func(t *testing.T, uri, collection string) steady
		}{{"go", startGoWriters}, {"python", startPythonWriters}, {"node", startNodeWriters}} {
			t.Run(way.name+"/"+driver.name, func(t *testing.T) {
				if driver.name != "go" || !slices.Contains(small, way.name) {
					testenv.Full(t)
				}
				collection := fmt.Sprintf("log%d", time.Now().UnixNano())
				w := driver.start(t, way.uri(t), collection)
				goOn(t, w)
				before := total(w.counts())
				stepDown(t, servers)
				began := time.Now()
				goOn(t, w)
				t.Logf("every thread goes on after %.1f s", time.Since(began).Seconds())
				ids, errors := w.stop(t)
				for i, e := range errors {
					if i < 3 {
						t.Log(e)
					}
				}
				t.Logf("%d writes acknowledged, %d of them after the primary stepped down, %d errors", len(ids), len(ids)-before, len(errors))
				// There are none, unless the election takes longer than the gateway waits.
				if len(errors) > steadyThreads {
					t.Errorf("%d errors for %d threads", len(errors), steadyThreads)
				}
				areThere(t, servers, collection, ids)
			})
		}
	}
}

// steady is a set of threads that write and read continuously.
type steady interface {
	counts() []int // acknowledged documents of each thread
	stop(t *testing.T) (ids, errors []string)
}

// goOn waits until every thread has had ten more documents acknowledged.
func goOn(t *testing.T, w steady) {
	t.Helper()
	var before []int
	testenv.Eventually(t, "all threads write", func() bool {
		now := w.counts()
		if len(before) == 0 {
			before = now
		}
		if len(before) != steadyThreads {
			return false
		}
		for i, n := range now {
			if n < before[i]+10 {
				return false
			}
		}
		return true
	})
}

func total(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// areThere checks that all acknowledged documents are stored.
func areThere(t *testing.T, servers []*mongotest.Server, collection string, ids []string) {
	t.Helper()
	coll := servers[primaryOf(t, servers)].Client(t).Database("shop").Collection(collection)
	cursor, err := coll.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		ID string `bson:"_id"`
	}
	if err := cursor.All(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range found {
		there[f.ID] = true
	}
	for _, id := range ids {
		if !there[id] {
			t.Errorf("%s was acknowledged and is lost", id)
		}
	}
	if len(ids) < 20*steadyThreads {
		t.Errorf("only %d writes", len(ids))
	}
}

// goWriters are goroutines that share one client.
type goWriters struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	done    [steadyThreads]atomic.Int64

	mu          sync.Mutex
	ids, errors []string
}

func startGoWriters(t *testing.T, uri, collection string) steady {
	t.Helper()
	coll := connect(t, uri).Database("shop").Collection(collection)
	ctx, cancel := context.WithCancel(t.Context())
	w := &goWriters{cancel: cancel}
	for i := range steadyThreads {
		w.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d/%d", i, n)
				_, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "n", Value: n}})
				acknowledged := err == nil
				if acknowledged {
					w.done[i].Add(1)
					err = coll.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Err()
				}
				w.note(ctx, id, acknowledged, err)
				time.Sleep(pace)
			}
		})
	}
	return w
}

func (w *goWriters) note(ctx context.Context, id string, acknowledged bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if acknowledged {
		w.ids = append(w.ids, id)
	}
	if err != nil && ctx.Err() == nil {
		w.errors = append(w.errors, err.Error())
	}
}

func (w *goWriters) counts() (list []int) {
	for i := range w.done {
		list = append(list, int(w.done[i].Load()))
	}
	return list
}

func (w *goWriters) stop(*testing.T) (ids, errors []string) {
	w.cancel()
	w.running.Wait()
	return w.ids, w.errors
}

// programWriters are threads of a program in another language that share one client.
type programWriters struct {
	input io.Closer
	ended chan struct{}
	done  atomic.Pointer[[]int]
	last  struct {
		Done        []int
		IDs, Errors []string
	}
}

func startPythonWriters(t *testing.T, uri, collection string) steady {
	t.Helper()
	return startProgramWriters(t, exec.CommandContext(t.Context(), testenv.Python(t, "python/requirements.txt"), "python/writers.py", uri, collection, fmt.Sprint(steadyThreads)))
}

func startNodeWriters(t *testing.T, uri, collection string) steady {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "node"), "node/writers.cjs", uri, collection, fmt.Sprint(steadyThreads))
	cmd.Env = append(os.Environ(), "NODE_PATH="+testenv.NodeModules(t, "node/package.json"))
	return startProgramWriters(t, cmd)
}

func startProgramWriters(t *testing.T, cmd *exec.Cmd) steady {
	t.Helper()
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &programWriters{input: input, ended: make(chan struct{})}
	go w.read(output)
	t.Cleanup(func() { _ = input.Close(); _ = cmd.Wait() })
	return w
}

func (w *programWriters) read(r io.Reader) {
	defer close(w.ended)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		w.last.Done = nil
		if json.Unmarshal(lines.Bytes(), &w.last) == nil && w.last.Done != nil {
			done := w.last.Done
			w.done.Store(&done)
		}
	}
}

func (w *programWriters) counts() []int {
	if done := w.done.Load(); done != nil {
		return *done
	}
	return nil
}

func (w *programWriters) stop(t *testing.T) (ids, errors []string) {
	_ = w.input.Close()
	select {
	case <-w.ended:
	case <-time.After(3 * time.Minute):
		t.Fatal("the program does not end")
	}
	return w.last.IDs, w.last.Errors
}
