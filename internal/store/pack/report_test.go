package pack

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// database is a database whose values are computed by value, on a server that uses used bytes.
type database struct {
	endless
	name  string
	keys  int
	value func(i int) []byte
	used  int64
}

func (d *database) Name() string { return "server/" + d.name }
func (d *database) DB() string   { return d.name }
func (d *database) Memory(context.Context) (store.Memory, error) {
	return store.Memory{Used: d.used, AllInMemory: true}, nil
}
func (d *database) Keys(context.Context) (int64, error) { return int64(d.keys), nil }

func (d *database) Page(_ context.Context, cursor string, o store.ScanOptions) (p store.Page, err error) {
	at, _ := strconv.Atoi(cursor)
	end := min(at+o.Count, d.keys)
	for i := at; i < end; i++ {
		p.Keys = append(p.Keys, []byte(strconv.Itoa(i)))
	}
	if end < d.keys {
		p.Next = strconv.Itoa(end)
	}
	return p, nil
}

func (d *database) Read(_ context.Context, keys [][]byte, _ store.ReadOptions, emit func(*store.Value) error) error {
	for _, k := range keys {
		i, _ := strconv.Atoi(string(k))
		if err := emit(&store.Value{Key: k, Type: policy.String, Stored: d.value(i)}); err != nil {
			return err
		}
	}
	return nil
}

// dryRun returns the report of a dry run over the databases of one server. sample limits the keys; 0: all.
func dryRun(t *testing.T, sample int, databases ...*database) *Report {
	t.Helper()
	o := Options{Task: newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}}), DryRun: true, Sample: sample, NoBackoff: true}
	for _, d := range databases {
		o.Targets = append(o.Targets, store.Target{Node: databases[0], Space: d})
	}
	r, err := RunUntilStable(t.Context(), func() (Options, error) { return o, nil }, func(context.Context) (bool, error) { return false, nil })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each database is estimated by its own sample: a few large values in one say nothing about many small ones
// in another.
func TestEstimateByDatabase(t *testing.T) {
	large := []byte(strings.Repeat("the same again and again ", 2000))
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	databases := []*database{
		{name: "0", keys: 20, value: func(int) []byte { return large }, used: 20 << 20},
		{name: "1", keys: 20_000, value: func(int) []byte { return noise }},
	}
	want := dryRun(t, 0, databases...).Saved()
	r := dryRun(t, 1000, databases...)
	saved, margin := r.Estimate()
	if r.Keys > 2000 || r.Total != 20_020 || saved < want*99/100 || saved > want*101/100 || margin > want/100 {
		t.Errorf("%d of %d keys: %d, give or take %d; it is %d", r.Keys, r.Total, saved, margin, want)
	}
	databases[0].value, databases[1].value = databases[1].value, func(i int) []byte { return large[:300+i%7*100] }
	want = dryRun(t, 0, databases...).Saved()
	if saved, margin := dryRun(t, 2000, databases...).Estimate(); saved-margin > want || saved+margin < want || margin == 0 || margin > want/10 {
		t.Errorf("%d, give or take %d; it is %d", saved, margin, want)
	}
}

// An estimate is never more than what the server uses, whatever the sample.
func TestEstimateIsNoMoreThanThereIs(t *testing.T) {
	large := []byte(strings.Repeat("the same again and again ", 2000))
	d := &database{name: "0", keys: 20_000, used: 50 << 20, value: func(i int) []byte { return large[:max(60, len(large)-i*100)] }}
	if saved, _ := dryRun(t, 500, d).Estimate(); saved != d.used {
		t.Errorf("%d would be saved of %d", saved, d.used)
	}
}

// Rules that only observe have another fingerprint than rules that store, so they share neither the state file nor the
// lease.
func TestFingerprintSeesObserve(t *testing.T) {
	of := func(observe bool) string {
		p, err := policy.New(policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1), Observe: observe}}})
		if err != nil {
			t.Fatal(err)
		}
		return Fingerprint(p)
	}
	if of(true) == of(false) {
		t.Error("they are the same")
	}
}

func TestEstimate(t *testing.T) {
	r := newReport()
	p := part{keys: 100, total: 1000, saved: 100 * 600, squares: 100 * 600 * 600}
	r.parts["0"] = p
	if saved, margin := r.Estimate(); saved != 600_000 || margin != 0 {
		t.Errorf("all alike: %d, %d", saved, margin)
	}
	p.squares *= 4
	r.parts["0"] = p
	if _, margin := r.Estimate(); margin < 150_000 || margin > 250_000 {
		t.Errorf("unlike: %d", margin) // 2 * 1000 * sqrt(3*600²/100 * 0.9) = 197,180
	}
	p.keys = 1000
	r.parts["0"] = p
	if _, margin := r.Estimate(); margin != 0 {
		t.Errorf("everything was looked at: %d", margin)
	}
}
