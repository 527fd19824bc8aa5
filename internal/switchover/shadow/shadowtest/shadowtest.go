// Package shadowtest contains test helpers shared by all mirrored protocols: a run with clients and its end,
// and a recording and its replay.
package shadowtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Start begins a run whose clients connect to addr. It is shut down when the test ends.
func Start(t *testing.T, cfg shadow.Config) (r *shadow.Run, addr string) {
	t.Helper()
	r, addr = Serve(t, cfg)
	if err := r.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return r, addr
}

// Serve is like Start, but does not begin the run.
func Serve(t *testing.T, cfg shadow.Config) (r *shadow.Run, addr string) {
	t.Helper()
	r = shadow.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = r.Serve(l) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = r.Shutdown(ctx)
		served.Wait()
	})
	return r, l.Addr().String()
}

// patience limits the wait for a mirror to end; it is reached only when that hangs.
const patience = 2 * time.Minute

// Finish ends the mirror when the targets have got everything that clients did.
func Finish(t *testing.T, r *shadow.Run) *shadow.Report {
	t.Helper()
	r.Finish("the test is over")
	select {
	case <-r.Over():
	case <-time.After(patience):
		t.Fatal("the mirror does not end")
	}
	report := r.Report()
	t.Logf("%d operations: %+v, forced %v, why %v, left out %v, notes %v, ended %q %q",
		report.Operations, report.Compared, report.Forced, report.Why, report.Left, report.Notes, report.Ended, report.Reasons)
	return report
}

// Settle is like Finish, and fails if anything differs or was lost.
func Settle(t *testing.T, r *shadow.Run) *shadow.Report {
	t.Helper()
	report := Finish(t, r)
	if c := report.Compared; c.Different > 0 || c.Unordered > 0 || c.Lost != [2]uint64{} || report.Dropped > 0 {
		t.Errorf("compared %+v, %d dropped, %v", c, report.Dropped, report.Differences)
	}
	return report
}

// FindsOne is like Finish, for a run in which one answer to the named operation differs, in data that no
// report may show.
func FindsOne(t *testing.T, r *shadow.Run, name, data string) {
	t.Helper()
	report := Finish(t, r)
	if report.Outcome != "VOID" || report.Compared.Different != 1 || len(report.Differences) != 1 || report.Differences[0].Name != name {
		t.Errorf("%s, %+v, %v", report.Outcome, report.Compared, report.Differences)
	}
	if strings.Contains(fmt.Sprint(report.Differences), data) {
		t.Errorf("the report shows data: %v", report.Differences)
	}
}

// Strangers opens connections for every entry of says; each is their number per entry. A connection sends the
// entry, reads for a moment and disconnects abruptly. wait returns when all have ended.
func Strangers(t *testing.T, addr string, each int, says map[string][]byte) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for name, text := range says {
		for range each {
			all.Go(func() {
				if err := Stranger(addr, text); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	return all.Wait
}

// Stranger opens one such connection.
func Stranger(addr string, says []byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0)
	_, _ = c.Write(says) // the server may cut it off
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
	return nil
}

// Undisturbed is like Finish, for a run in which at least least operations were compared, none of them
// different or lost.
func Undisturbed(t *testing.T, r *shadow.Run, least uint64) {
	t.Helper()
	report := Finish(t, r)
	if c := report.Compared; report.Outcome == "VOID" || c.Different > 0 || c.Lost != [2]uint64{} || c.Equal < least {
		t.Errorf("%s %q %+v", report.Outcome, report.Reasons, c)
	}
}

// AwaitOver calls write, for a client, until the mirror is off.
func AwaitOver(t *testing.T, r *shadow.Run, write func()) {
	t.Helper()
	for end := time.After(patience); ; {
		write()
		select {
		case <-r.Over():
			return
		case <-end:
			t.Fatal("never: the mirror is off")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
