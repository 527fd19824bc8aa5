package pack

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// TestOrder finishes pages in random order: the position never passes one in work.
func TestOrder(t *testing.T) {
	for range 200 {
		var position string
		ended, counted := false, int64(0)
		o := &resumeTracker{setPosition: func(p string, e bool) { position, ended = p, e }, count: func(r *Report) { counted += r.Keys }}
		const n = 20
		var pages []*trackedPage
		for i := range n {
			pages = append(pages, o.begin(place(i+1, n), 10))
			pages[i].looked = newReport()
			pages[i].looked.Keys = 1
		}
		done := map[int]bool{}
		for _, i := range rand.Perm(n) {
			o.finish(pages[i])
			done[i] = true
			first := 0
			for done[first] {
				first++
			}
			if want := place(first, n); position != want || ended != (first == n) || counted != int64(first) {
				t.Fatalf("position %q, ended %v, %d pages counted, first page in work %d", position, ended, counted, first)
			}
			left, keys := int64(0), int64(0)
			for _, p := range o.pages {
				left, keys = left+p.looked.Keys, keys+p.keys
			}
			if left != int64(n-first) || keys != 10*left || len(o.pages) > 2*(n-len(done)) {
				t.Fatalf("%d pages with %d keys left in %d, first page in work %d", left, keys, len(o.pages), first)
			}
		}
	}
}

// place returns the cursor after the given number of n pages. It is "" before the first and after the last page.
func place(behind, n int) string {
	if behind%n == 0 {
		return ""
	}
	return fmt.Sprint(behind)
}

func TestShares(t *testing.T) {
	if crc16([]byte("123456789")) != 0x31C3 {
		t.Error("not the CRC of Redis Cluster")
	}
	count := make([]int, 3)
	for i := range 3000 {
		count[int(crc16(fmt.Appendf(nil, "key:%d", i)))%3]++
	}
	for _, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("shares %v", count)
		}
	}
}

func TestState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	open := func(run, fingerprint string) (*State, error) { return OpenState(file, run, fingerprint) }
	s, err := open("run", "f")
	if err != nil || len(s.body.Spaces) > 0 {
		t.Fatal(err)
	}
	s.set("a", Position{RunID: "1", Cursor: "18446744073709551615"})
	s.set("b", Position{RunID: "1", Done: true})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || len(s.body.Spaces) == 0 {
		t.Fatal(err)
	}
	if p, ok := s.position("a"); !ok || p.Cursor != "18446744073709551615" || p.RunID != "1" || p.Done {
		t.Errorf("%+v", p)
	}
	for _, other := range [][2]string{{"another", "f"}, {"run", "g"}} {
		if _, err := open(other[0], other[1]); !errors.Is(err, ErrOtherState) {
			t.Errorf("%v: %v", other, err)
		}
	}
	earlier := `{"version": 1, "run": "run", "fingerprint": "f", "spaces": {"a": {"run_id": "1", "cursor": 123}, "b": {"run_id": "1", "cursor": 0}}}`
	if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || s.body.Spaces["a"].Cursor != "123" || s.body.Spaces["b"].Cursor != "" {
		t.Errorf("a file of an earlier release: %+v, %v", s, err)
	}
	s.set("a", Position{RunID: "1", Done: true})
	s.set("b", Position{RunID: "1", Done: true})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	if s, err = open("run", "f"); err != nil || len(s.body.Spaces) > 0 {
		t.Errorf("a run that was completed resumes (%v)", err)
	}
	if err := os.WriteFile(file, []byte("{\"ver"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open("run", "f"); !errors.Is(err, ErrOtherState) {
		t.Errorf("half a file: %v", err)
	}
	if _, err := OpenState(filepath.Join(file, "none"), "run", "f"); !errors.Is(err, ErrState) {
		t.Errorf("where no file can be: %v", err)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func newSeal(t *testing.T, o policy.Options) *Seal {
	t.Helper()
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &Seal{Policy: p, Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})}), Ready: func(uint32) bool { return false }}
}

func zstd(level int) codec.Setting { return codec.Setting{Codec: codec.Zstd, Level: level} }

func TestSealJudges(t *testing.T) {
	s := newSeal(t, policy.Options{
		Rules: []policy.Rule{
			{Key: "dict:*", Setting: codec.Setting{Codec: codec.Zstd, Dict: 7}},
			{Key: "raw:*", Setting: codec.Setting{Codec: codec.Raw}},
			{Key: "db1:*", Space: "1", Setting: zstd(3)},
			{Key: "k*", Setting: zstd(3)},
		},
		Exclude: []string{"kept:*"},
	})
	text := strings.Repeat("the same again and again ", 40)
	sealed := string(s.Sealer.Seal(nil, []byte(text), zstd(3), nil))
	for _, c := range []struct {
		key, value string
		left       store.Reason
	}{
		{"k", text, ""},
		{"k", "short", NoRule}, // below the minimum size
		{"k", "1234567890123456789", Computed},
		{"k", "HYLL" + text, Computed},
		{"k", sealed, AlreadySealed},
		{"k", envelope.Magic + "damaged", AlreadySealed},
		{"other", text, NoRule},
		{"raw:k", text, NoRule},
		{"db1:k", text, NoRule},
	} {
		v := &store.Value{Key: []byte(c.key), Type: policy.String, Stored: []byte(c.value)}
		d := s.Decide("0", v)
		if d.Skip != c.left || d.Replace != (c.left == "") || d.Stop != nil || d.Problem != nil {
			t.Errorf("%s %.20q: %+v", c.key, c.value, d)
		}
		if !d.Replace {
			continue
		}
		if opened, err := s.Sealer.Open(nil, d.New); err != nil || string(opened) != c.value {
			t.Errorf("%s: what replaces it does not open to it", c.key)
		}
	}
	if d := s.Decide("0", &store.Value{Key: []byte("dict:1"), Type: policy.String, Stored: []byte(text)}); !errors.Is(d.Stop, ErrNoDictionary) {
		t.Errorf("a dictionary that is not in the store: %+v", d)
	}
	for key, want := range map[string]bool{"k1": true, "kept:1": false, "other": false, "raw:1": false, "db1:1": false, "dict:1": true} {
		if s.Wants("0", []byte(key)) != want {
			t.Errorf("wants %s: %v", key, !want)
		}
	}
	if !s.Wants("1", []byte("db1:1")) {
		t.Error("the rule's database is not minded")
	}
}

func TestSealAnew(t *testing.T) {
	text := []byte(strings.Repeat("the same again and again, but numbers differ: ", 20))
	for i := range 200 {
		text = fmt.Appendf(text, "%d,", i*i*7919)
	}
	s := newSeal(t, policy.Options{Rules: []policy.Rule{{Setting: zstd(1)}}})
	judge := func(stored []byte) Verdict {
		return s.Decide("0", &store.Value{Key: []byte("k"), Type: policy.String, Stored: stored})
	}
	s.Override = zstd(19)
	lz4 := s.Sealer.Seal(nil, text, codec.Setting{Codec: codec.LZ4}, nil)
	best := judge(lz4)
	if !best.Replace || len(best.New) >= len(lz4) {
		t.Fatalf("from lz4: %+v", best.Skip)
	}
	if d := judge(best.New); d.Skip != AlreadySealed {
		t.Errorf("a second time: %+v", d)
	}
	s.Override = codec.Setting{Codec: codec.LZ4}
	if d := judge(best.New); d.Skip != AlreadySealed {
		t.Errorf("to what is larger: %+v", d)
	}
	s.Force = true
	if d := judge(best.New); !d.Replace || !bytes.Equal(d.New, lz4) {
		t.Errorf("to what is larger, asked for: %+v", d)
	}
	if d := judge(lz4); d.Skip != AlreadySealed {
		t.Errorf("a second time: %+v", d)
	}
	small := make([]byte, 100) // incompressible
	for i := range small {
		small[i] = byte(i*i*i*7919>>3) ^ byte(i*31)
	}
	d := s.Sealer.Seal(nil, small, zstd(1), func(int, int) bool { return true })
	if !envelope.IsSealed(d) {
		t.Fatal("not sealed")
	}
	if d := judge(d); !d.Replace || string(d.New) != string(small) {
		t.Errorf("to what is worth nothing, asked for: %+v", d)
	}
	s.Force = false
	if d := judge(d); d.Replace || d.Skip != NoGain {
		t.Errorf("to what is worth nothing: %+v", d)
	}
	if d := judge(append([]byte(nil), lz4[:len(lz4)-3]...)); !errors.Is(d.Problem, envelope.ErrDamaged) {
		t.Errorf("damaged: %+v", d)
	}
}

func TestUnpackAndVerifyJudge(t *testing.T) {
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	text := []byte(strings.Repeat("text ", 100))
	sealed := sealer.Seal(nil, text, zstd(3), nil)
	wrapped := sealer.Escape(nil, sealed)
	value := func(b []byte, kind policy.Type) *store.Value {
		return &store.Value{Key: []byte("k"), Type: kind, Stored: b}
	}
	u, v, before := &Unpack{Sealer: sealer}, &Verify{Sealer: sealer}, &Verify{Sealer: sealer, Before: true}
	if d := u.Decide("0", value(sealed, policy.Hash)); !d.Replace || !bytes.Equal(d.New, text) {
		t.Errorf("%+v", d)
	}
	for name, c := range map[string]struct {
		v                    *store.Value
		unpack, verify, befo error
	}{
		"plain":   {value(text, policy.String), nil, nil, nil},
		"wrapped": {value(wrapped, policy.String), ErrMustStay, nil, ErrMagic},
		"stream":  {value(sealed, policy.Stream), ErrImmutable, nil, ErrMagic},
		"damaged": {value(sealed[:20], policy.String), envelope.ErrDamaged, envelope.ErrDamaged, ErrMagic},
	} {
		for task, want := range map[Task]error{u: c.unpack, v: c.verify, before: c.befo} {
			d := task.Decide("0", c.v)
			if !errors.Is(d.Problem, want) || d.Replace || d.Stop != nil {
				t.Errorf("%s, %T: %+v, want %v", name, task, d, want)
			}
		}
	}
}

// TestVerifyFindsCutEnvelopes damages envelopes as commands on parts of values do. None of the results counts
// as plain.
func TestVerifyFindsCutEnvelopes(t *testing.T) {
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})
	v := &Verify{Sealer: sealer}
	judge := func(stored []byte) Verdict {
		return v.Decide("0", &store.Value{Key: []byte("k"), Type: policy.Tuple, Stored: stored})
	}
	text := []byte(strings.Repeat("text ", 100))
	for _, setting := range []codec.Setting{zstd(3), {Codec: codec.LZ4}, {Codec: codec.S2}, {Codec: codec.Zlib, Level: 6}, {}} {
		sealed := sealer.Seal(nil, text, setting, nil)
		if setting == (codec.Setting{}) {
			sealed = sealer.Escape(nil, text)
		}
		splice := func(offset, length int, paste string) []byte {
			return slices.Concat(sealed[:offset], []byte(paste), sealed[offset+length:])
		}
		for name, stored := range map[string][]byte{
			"the magic overwritten":    splice(0, 3, "XXX"),
			"one byte overwritten":     splice(0, 1, "X"),
			"the magic replaced":       splice(0, 3, "something longer"),
			"the magic cut off":        splice(0, 3, ""),
			"text before it":           splice(0, 0, "XXX"),
			"text after it":            splice(len(sealed), 0, "XXX"),
			"the end cut off":          splice(len(sealed)-3, 3, ""),
			"cut within the header":    splice(4, 3, "XXX"),
			"cut within the payload":   splice(20, 3, "XXX"),
			"nothing but the magic":    splice(3, len(sealed)-3, ""),
			"written without Cinch":    []byte(envelope.Magic + " is how it begins"),
			"the end of the magic cut": splice(1, 2, "XX"),
		} {
			d := judge(stored)
			if !errors.Is(d.Problem, envelope.ErrDamaged) && !errors.Is(d.Problem, envelope.ErrUnknownCodec) {
				t.Errorf("%v, %s: %+v, want it damaged", setting, name, d)
			}
			if errors.Is(d.Problem, ErrBehind) != (name == "text before it") {
				t.Errorf("%v, %s: %v", setting, name, d.Problem)
			}
		}
		if d := judge(sealed); d.Skip != Opened || d.Problem != nil {
			t.Errorf("%v, whole: %+v", setting, d)
		}
		if d := judge(slices.Concat(text, sealed)); d.Problem != nil || d.Skip != Plain {
			t.Errorf("%v, far behind other content: %+v", setting, d)
		}
	}
	random := rand.NewChaCha8([32]byte{})
	for range 20_000 {
		b := make([]byte, 300)
		_, _ = random.Read(b)
		if d := judge(b); d.Problem != nil {
			t.Fatalf("random bytes %x: %+v", b, d)
		}
	}
}

// Numbers of two bytes can look like the beginnings of many envelopes. The value is not copied for each.
func TestVerifyCopiesAValueOnce(t *testing.T) {
	v := &Verify{Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})})}
	numbers := &store.Value{Key: []byte("k"), Type: policy.String, Stored: bytes.Repeat([]byte{0x12, 0}, 1<<19)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if d := v.Decide("0", numbers); d.Problem != nil || d.Skip != Plain {
		t.Errorf("%+v", d)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes were allocated for a value of 1 MiB", n)
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
