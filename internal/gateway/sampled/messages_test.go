package sampled

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

func reading(r *rand.Rand, what string) []byte {
	return fmt.Appendf(nil, `{"sensor":"%s-%06d","unit":"celsius","calibrated":true,"value":%d.%d,"site":"north-%d","firmware":"4.2.%d"}`,
		what, r.IntN(1e6), r.IntN(40), r.IntN(1000), r.IntN(9), r.IntN(30))
}

// Messages are counted by method and direction, and sampled up to a length.
func TestMessagesAreCounted(t *testing.T) {
	m := NewMessages(8 << 20)
	k := m.Kind("/s/M", policy.Request)
	if m.Kind("/s/M", policy.Request) != k || m.Kind("/s/M", policy.Reply) == k {
		t.Error("kinds are not told apart by method and direction")
	}
	message := make([]byte, 1000)
	k.Observe(message)
	k.Observe(message[:1])
	k.Passed(1023)
	k.Passed(1 << 30)
	k.PassedCompressed(77)
	for n, want := range map[int]bool{MaxMessageSample: true, MaxMessageSample + 1: false} {
		if k.Wants(n) != want {
			t.Errorf("of %d bytes: sampled %v", n, !want)
		}
	}
	k.Observe(make([]byte, MaxMessageSample+1))
	s := m.Status()
	if len(s) != 2 || s[1].Direction != "reply" || s[1].Messages != 0 {
		t.Fatalf("%+v", s)
	}
	sizes := []SizeBucket{{1, 1}, {1023, 2}, {1<<15 - 1, 1}, {1<<31 - 1, 1}}
	if s := s[0]; s.Method != "/s/M" || s.Direction != "request" || s.Messages != 5 || s.Bytes != 1000+1+1023+1<<30+MaxMessageSample+1 ||
		!slices.Equal(s.Sizes, sizes) || s.Compressed != 1 || s.CompressedBytes != 77 || s.SampleMessages != 2 {
		t.Errorf("%+v", s)
	}
	kinds, bytes := m.Samples()
	if kinds != 2 || bytes < 1001 || bytes != s[0].SampleBytes {
		t.Errorf("%d kinds, %d bytes", kinds, bytes)
	}
}

// Estimates use only the samples of their own kind, and messages that would grow count unchanged.
func TestEstimatesOfMessages(t *testing.T) {
	m := NewMessages(0)
	for range 10 {
		m.Kind("/s/M", policy.Request).Observe(make([]byte, 100))
		m.Kind("/s/M", policy.Reply).Observe(make([]byte, 200))
	}
	compress := func(dst, src []byte, setting string) ([]byte, error) {
		n := map[string]int{"half": len(src) / 2, "grows": len(src) + 1}[setting]
		return append(dst, make([]byte, n)...), nil
	}
	for _, s := range m.Status() {
		if got := m.Estimates(s, []string{"half", "grows"}, compress); !slices.Equal(got, []Estimate{{"half", 2}, {"grows", 1}}) {
			t.Errorf("%s: %+v", s.Direction, got)
		}
	}
	if got := m.Estimates(KindStatus{Method: "/s/Other", Direction: "request"}, []string{"half"}, compress); got == nil || len(got) != 0 {
		t.Errorf("without samples: %+v", got)
	}
}

// Clients choose the names of methods, so there may be any number. Their samples take limited memory, and new methods
// replace idle ones.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMessages(8 << 20)
		r := rand.New(rand.NewPCG(1, 2))
		var refused int
		for i := range 10_000 {
			k := m.Kind(fmt.Sprintf("/s/M%d", i), policy.Request)
			if k == nil {
				refused++
				continue
			}
			for range 3000 {
				k.Observe(reading(r, "x"))
			}
		}
		if n, bytes := m.Samples(); n != 8 || refused != 10_000-8 || bytes > 8<<20 {
			t.Errorf("%d kinds, %d refused, %d bytes", n, refused, bytes)
		}
		time.Sleep(kindIdle - time.Second)
		if m.Kind("/s/M0", policy.Request); m.Kind("/s/Later", policy.Request) != nil {
			t.Error("a method replaces one that was called lately")
		}
		time.Sleep(time.Second)
		if m.Kind("/s/Later", policy.Request) == nil {
			t.Error("methods that are no longer called keep others out")
		}
		if !slices.ContainsFunc(m.Status(), func(s KindStatus) bool { return s.Method == "/s/M0" }) {
			t.Error("the method that was called last is gone")
		}
		if m.Kind(string(make([]byte, maxMethod+1)), policy.Request) != nil {
			t.Error("a name of any length")
		}
		m.Resize(1 << 20)
		if _, bytes := m.Samples(); bytes > 2<<20 {
			t.Errorf("%d bytes after the memory was cut to 1 MiB", bytes)
		}
		big := NewMessages(1 << 30)
		for i := range 100 {
			big.Kind(fmt.Sprintf("/s/M%d", i), policy.Request)
		}
		if n := len(big.Status()); n != maxKinds {
			t.Errorf("%d kinds", n)
		}
	})
}

// Many goroutines count and sample while others read the status.
func TestMessagesAtOnce(t *testing.T) {
	m := NewMessages(1 << 20)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range 1000 {
				k := m.Kind("/s/M", policy.Reply)
				v := reading(r, "x")
				if k.Wants(len(v)) {
					k.Observe(v)
				} else {
					k.Passed(len(v))
				}
				k.PassedCompressed(10)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			m.Resize(1 << 20)
			m.Samples()
			for _, s := range m.Status() {
				m.Estimates(s, []string{"zstd-1"}, func(dst, src []byte, _ string) ([]byte, error) { return append(dst, src...), nil })
			}
			runtime.Gosched()
		}
	})
	all.Wait()
	if s := m.Status()[0]; s.Messages != 4000 || s.Compressed != 4000 {
		t.Errorf("%+v", s)
	}
}
