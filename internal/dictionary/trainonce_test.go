package dictionary

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// oneJob is a job that calls TrainOnce.
type oneJob struct {
	*Manager
	trainings, waits int

	number   uint32 // of the dictionary afterwards
	troubles map[string]string
}

// jobForTest returns a job over a store in memory, with a sample. Each training takes the given time and returns got.
func jobForTest(t *testing.T, s *shared, by string, takes time.Duration, got result) *oneJob {
	t.Helper()
	j := &oneJob{}
	j.Manager = New(Options{
		By: by, Store: s, Apply: func(*policy.Policy) {}, Trainer: NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}),
		train: func(context.Context, task) result {
			j.trainings++
			time.Sleep(takes)
			return got
		},
	})
	j.SetRules(Rules{Policy: autoPolicy(t)})
	j.sampleForTest(documents(200, 0))
	return j
}

func (j *oneJob) run(ctx context.Context) {
	p, troubles := j.TrainOnce(ctx, 1, func(rule string) {
		if rule == "docs" {
			j.waits++
		}
	})
	j.number, j.troubles = p.Rules()[0].Setting.Dict, troubles
}

func dictOf(t *testing.T, seed uint64) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict(document(rand.New(rand.NewPCG(seed, seed)), 0))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func made(d *codec.Dict) result {
	return result{dict: d, algorithm: "cover", before: 0.9, promised: 0.4, values: 100}
}

// Of several jobs at the same time, as with --worker, the first one's dictionary is used by all.
func TestOnceAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		var jobs []*oneJob
		for i, by := range []string{"a", "b", "c"} {
			jobs = append(jobs, jobForTest(t, s, by, time.Duration(10+i)*time.Second, made(dictOf(t, uint64(i)))))
			go jobs[i].run(t.Context())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, j := range jobs {
			if j.number == 0 || j.number != jobs[0].number || len(j.troubles) > 0 {
				t.Errorf("%s uses %08x, a uses %08x; %v", j.o.By, j.number, jobs[0].number, j.troubles)
			}
		}
	})
}

// A job waits while a gateway trains. The gateway may roll out a dictionary, find none that is worth it, or stop
// answering. The job does not wait, or train, for a rule of which it has too few values.
func TestOnceWaitsForATraining(t *testing.T) {
	const until = 20 * time.Second
	theirs, own := dictOf(t, 1), dictOf(t, 2)
	for name, c := range map[string]struct {
		end       func(ctx context.Context, a *announcer)
		want      uint32
		trainings int
	}{
		"a dictionary": {func(ctx context.Context, a *announcer) {
			if refused := a.rollOut(ctx, theirs, &Version{Dict: Number(theirs.Number()), Promised: 0.4}, "docs", ""); refused != "" {
				t.Error(refused)
			}
		}, theirs.Number(), 0},
		"none":      {func(ctx context.Context, a *announcer) { a.release(ctx) }, own.Number(), 1},
		"no answer": {func(context.Context, *announcer) {}, own.Number(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared()
				gateway := managerForTest(t, s, "gateway", result{}).all()[0]
				gateway.announcer.o.now = time.Now
				if !gateway.announcer.read(t.Context()) || gateway.announcer.lease(t.Context()) != "" {
					t.Fatal("no lease")
				}
				j, few := jobForTest(t, s, "pack", time.Second, made(own)), jobForTest(t, s, "few", 0, made(own))
				few.all()[0].sampler.Reset()
				few.sampleForTest(documents(minOnceSamples-1, 0))
				few.run(t.Context())
				if few.waits+few.trainings > 0 || few.number != 0 {
					t.Errorf("with few values: %+v", few)
				}
				var done atomic.Bool
				go func() {
					j.run(t.Context())
					done.Store(true)
				}()
				time.Sleep(until)
				synctest.Wait()
				if done.Load() || j.waits != 1 {
					t.Fatalf("after %v: done %v, said to wait %d times", until, done.Load(), j.waits)
				}
				c.end(t.Context(), &gateway.announcer)
				time.Sleep(gateway.announcer.o.Lease)
				synctest.Wait()
				if !done.Load() || j.number != c.want || j.trainings != c.trainings || j.waits != 1 || len(j.troubles) > 0 {
					t.Errorf("done %v with %08x of %08x after %d trainings, %d waits, %v", done.Load(), j.number, c.want, j.trainings, j.waits, j.troubles)
				}
			})
		})
	}
}

// An interrupted job does not wait until another's training ends.
func TestOnceStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared()
		s.text, s.version = Record{Lease: &Lease{By: "gateway", Until: time.Now().Add(5 * time.Minute)}}.text(), 1
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began, j := time.Now(), jobForTest(t, s, "pack", 0, made(dictOf(t, 1)))
		if j.run(ctx); time.Since(began) != 3*time.Second || j.number != 0 || j.trainings != 0 {
			t.Errorf("after %v: %+v", time.Since(began), j)
		}
	})
}

// TrainOnce returns a trouble if the store refuses, and none if no dictionary is worth it.
func TestOnceTellsTroubles(t *testing.T) {
	for method, want := range map[string]string{"Record": "can't be read", "ReplaceRecord": "stored there", "Publish": "stored there", "Ready": "not name it yet", "": ""} {
		s := newShared()
		s.refused[method], s.unready = true, method == "Ready"
		got := made(dictOf(t, 1))
		if method == "" {
			got = result{refused: refusedSaving}
		}
		j := jobForTest(t, s, "pack", 0, got)
		if j.run(t.Context()); j.number != 0 || j.waits != 0 || !strings.Contains(j.troubles["docs"], want) || want == "" && len(j.troubles) > 0 {
			t.Errorf("%q: %08x, %d waits, %v", method, j.number, j.waits, j.troubles)
		}
	}
}
