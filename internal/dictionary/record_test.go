package dictionary

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

func TestRecord(t *testing.T) {
	now := time.Unix(1_790_000_000, 0).UTC()
	r, err := ParseRecord("")
	if err != nil {
		t.Fatal(err)
	}
	r = r.withLease("a", now.Add(time.Minute))
	const lease = 2 * time.Minute
	if !r.leasedByAnother("b", now, lease) || r.leasedByAnother("a", now, lease) || r.leasedByAnother("b", now.Add(time.Hour), lease) {
		t.Error("lease")
	}
	if r.leasedByAnother("b", now.Add(-time.Hour), lease) {
		t.Error("a clock that is an hour ahead keeps everybody from training")
	}
	// The lease's holder disappears after it may have stored a dictionary, and another gateway takes the lease.
	r = r.withPending(0xaa, now.Add(time.Minute)).withLease("b", now.Add(2*time.Minute))
	if !r.names(0xaa) || r.Lease.By != "b" || r.Lease.Dict != 0 {
		t.Errorf("%+v", r)
	}
	r = r.withCurrent(Version{Dict: 0xbb, Before: 0.8, Promised: 0.2})
	r = r.withCurrent(Version{Dict: 0xcc})
	if r.Current.Dict != 0xcc || r.Lease != nil || len(r.Former) != 2 || r.Former[0].Dict != 0xbb || r.Former[0].Gain() != 0.75 {
		t.Errorf("%+v", r)
	}
	r = r.withCurrent(Version{Dict: 0xbb}) // an old one again
	if r.Current.Dict != 0xbb || len(r.Former) != 2 || r.Former[0].Dict != 0xcc {
		t.Errorf("%+v", r)
	}
	again, err := ParseRecord(r.text())
	if err != nil || again.text() != r.text() || !strings.Contains(r.text(), `"dict":"000000bb"`) {
		t.Errorf("%v: %s", err, again.text())
	}
	for i := range Number(100) {
		r = r.withCurrent(Version{Dict: 1000 + i})
	}
	if len(r.Former) != maxFormer {
		t.Errorf("%d former", len(r.Former))
	}
	if n := len(r.Dictionaries()); n != 103 || !r.names(1000) || !slices.Contains(r.Dictionaries(), 0xcc) {
		t.Errorf("of 103 dictionaries it names %d", n)
	}
	if r = r.withCurrent(Version{Dict: 1000}); slices.Contains(r.Older, 1000) {
		t.Error("current and older")
	}
	for i := range Number(2 * maxOlder) {
		r = r.withCurrent(Version{Dict: 5000 + i})
	}
	if len(r.Older) != maxOlder || len(r.text()) > 32<<10 {
		t.Errorf("%d older, %d bytes", len(r.Older), len(r.text()))
	}
	for _, bad := range []string{"{", `{"current":{"dict":"xyz"}}`, `{"current":{"dict":"123"}}`} {
		if _, err := ParseRecord(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := policy.Rule{Name: "a", Key: "k:*", Types: policy.String, MinSize: 64, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	same, others := base, []policy.Rule{base, base, base, base, base}
	same.Name, same.Setting.Level, same.Setting.Dict = "b", 9, 7
	others[0].Key, others[1].Field, others[2].Space, others[3].Types, others[4].MaxSize = "l:*", "f", "1", policy.Hash, 1000
	if Fingerprint(&same) != Fingerprint(&base) || len(Fingerprint(&base)) != 16 {
		t.Error("name and level count")
	}
	for _, o := range others {
		if Fingerprint(&o) == Fingerprint(&base) {
			t.Errorf("%+v looks the same", o)
		}
	}
}

func TestRecordIsAbandoned(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		r    Record
		want bool
	}{
		"seen":      {Record{Seen: ago(time.Hour), Current: &Version{At: ago(9000 * time.Hour)}}, false},
		"announced": {Record{Current: &Version{At: ago(time.Hour)}}, false},
		"training":  {Record{Lease: &Lease{Until: ago(time.Hour)}}, false},
		"long ago":  {Record{Seen: ago(31 * time.Hour), Current: &Version{At: ago(40 * time.Hour)}}, true},
		"never":     {Record{}, true},
	} {
		if got := c.r.Abandoned(now, 30*time.Hour); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	r := Record{Current: &Version{Dict: 1}, Former: []Version{{Dict: 2}}, Lease: &Lease{Dict: 3}}
	if got := r.Dictionaries(); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// An idle gateway confirms once a day that it has the rule.
func TestRecordIsRefreshed(t *testing.T) {
	f := newFaultTest(t)
	now := time.Unix(1_790_000_000, 0)
	g := f.gateway(t, 0, autoPolicy(t), fails, noFaults)
	g.o.now, g.o.Timeout = func() time.Time { return now }, 10*time.Second
	r := g.all()[0]
	seen := func() time.Time {
		t.Helper()
		g.step(t.Context(), r)
		text, _, err := g.store.Dicts.Record(t.Context(), r.fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		record, err := ParseRecord(text)
		if err != nil || record.Current == nil {
			t.Fatalf("%v: %s", err, text)
		}
		return record.Seen
	}
	first := seen()
	if !first.Equal(now) {
		t.Fatalf("rolled out at %v, seen %v", now, first)
	}
	now = now.Add(time.Hour)
	first = seen() // by the thorough training
	now = now.Add(seenMaxAge - time.Second)
	if got := seen(); !got.Equal(first) {
		t.Errorf("written again at once: %v", got)
	}
	now = now.Add(time.Second)
	if got := seen(); !got.Equal(now) {
		t.Errorf("seen %v, want %v", got, now)
	}
}
