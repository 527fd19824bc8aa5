package shadow

import (
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// What does not fit is dropped and counted, with all that follows on its connection; other connections and what is
// queued stay.
func TestTapDropsAndNeverWaits(t *testing.T) {
	tap := newTap(16<<10, 0)
	a, b := &tapped{number: 1}, &tapped{number: 2}
	kib := []byte(strings.Repeat("x", 1024))
	for !a.lost.Load() {
		tap.put(a, gateway.FromClient, kib)
	}
	queued := tap.take(nil)
	if n := len(queued); n == 0 || n > 16 {
		t.Errorf("%d KiB are queued", n)
	}
	for _, p := range queued {
		tap.free(p)
	}
	tap.put(a, gateway.FromClient, kib)
	tap.put(b, gateway.FromClient, kib)
	tap.end(a)
	rest := tap.take(nil)
	if len(rest) != 2 || rest[0].conn != b || rest[1].bytes != nil || tap.dropped.Load() != 1 {
		t.Errorf("%d pieces after that, %d dropped", len(rest), tap.dropped.Load())
	}
}

func TestTapIsOff(t *testing.T) {
	tap := newTap(MiB, 0)
	tap.off.Store(true)
	tap.put(&tapped{}, gateway.FromClient, []byte("x"))
	if len(tap.take(nil)) > 0 {
		t.Error("a tap that is off took something")
	}
	tap.close()
	if !tap.isClosed() {
		t.Error("a closed and empty tap says that it is not")
	}
}

// More than one late piece in a hundred of a second is too slow; one in a hundred is not.
func TestSlowness(t *testing.T) {
	s := slowness{bound: time.Millisecond}
	second := time.Unix(1000, 0)
	for i := range 1000 {
		d := time.Microsecond
		if i%100 == 99 {
			d = time.Second
		}
		if s.took(second, d) {
			t.Fatalf("one late piece in a hundred is too slow at piece %d", i)
		}
	}
	if s.took(second.Add(time.Second), time.Second) {
		t.Error("the first late piece of a second is too slow")
	}
	if !s.took(second.Add(time.Second), time.Second) {
		t.Error("two late pieces of two are not too slow")
	}
}
