package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A drain ends idle sessions at once, others when their transaction has ended, and new ones a moment later.
func TestDrain(t *testing.T) {
	r := newRig(t, nil)
	quiet, busy, fresh := r.connect(t, "trusted", ""), r.connect(t, "trusted", ""), r.connect(t, "trusted", "application_name=fresh")
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// On a slow machine gateway.BeginPatience may be over already.
	just := map[string]time.Time{"fresh": time.Now().Add(time.Hour)}
	for _, s := range r.g.all() {
		s.mu.Lock()
		s.newUntil = just[s.params["application_name"]]
		s.mu.Unlock()
	}
	ended := make(chan error, 1)
	go func() { ended <- r.g.Shutdown(context.Background()) }()
	_, err = quiet.WaitForNotification(t.Context())
	if err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("an idle client got %v", err)
	}
	ask(t, fresh, "SELECT 'first'")
	for _, s := range r.g.all() {
		if s.params["application_name"] == "fresh" {
			s.mu.Lock()
			s.newUntil = time.Time{}
			s.mu.Unlock()
			s.Drain() // as its timer does
		}
	}
	if _, err = fresh.WaitForNotification(t.Context()); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("a client that is no longer new got %v", err)
	}
	if err := tx.QueryRow(t.Context(), "SELECT 1").Scan(new(int)); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Sessions that a drain no longer waits for get the shutdown error, and nothing of their transactions is
// committed.
func TestEndOfADrain(t *testing.T) {
	r := newRig(t, nil)
	r.node.SQL(t, "DROP TABLE IF EXISTS kept; CREATE TABLE kept (a int); GRANT ALL ON kept TO PUBLIC")
	waits, runs, copies := r.connect(t, "trusted", ""), r.connect(t, "trusted", ""), r.connect(t, "trusted", "")
	tx, err := waits.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 3)
	go func() {
		_, err := runs.Exec(context.Background(), "INSERT INTO kept SELECT 1 FROM pg_sleep(600)")
		told <- err
	}()
	data, more := io.Pipe()
	defer more.Close()
	go func() {
		_, err := copies.PgConn().CopyFrom(context.Background(), data, "COPY kept FROM STDIN")
		told <- err
	}()
	_, _ = more.Write([]byte("2\n"))
	program := exec.Command(testenv.Program(t, "psql"), "-X", "-c", "INSERT INTO kept SELECT 3 FROM pg_sleep(600)")
	program.Env = append(os.Environ(), "PGHOST="+r.host, "PGPORT="+r.port, "PGUSER=trusted", "PGDATABASE=postgres")
	go func() {
		out, err := program.CombinedOutput()
		if err != nil && strings.Contains(string(out), "FATAL:  terminating connection") {
			err = errors.New("57P01: " + string(out))
		}
		told <- fmt.Errorf("psql: %w: %s", err, out)
	}()
	testenv.Eventually(t, "the statements run", func() bool {
		return r.node.SQL(t, "SELECT count(*) FILTER (WHERE wait_event = 'PgSleep'), count(*) FILTER (WHERE query LIKE 'COPY kept%') FROM pg_stat_activity") == "2|1"
	})
	ended := make(chan error, 1)
	go func() { ended <- r.g.Shutdown(context.Background()) }()
	testenv.Eventually(t, "all drain", func() bool {
		return !slices.ContainsFunc(r.g.all(), func(s *session) bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.draining })
	})
	expireSessions(r.g.all())
	for range cap(told) {
		if err := <-told; err == nil || !strings.Contains(err.Error(), "57P01") {
			t.Errorf("told %v", err)
		}
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO kept VALUES (4)"); err == nil || !strings.Contains(err.Error(), "57P01") {
		t.Errorf("a client in a transaction got %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the server has nothing to do", func() bool {
		return r.node.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'trusted'") == "0"
	})
	if got := r.node.SQL(t, "SELECT count(*) FROM kept"); got != "0" {
		t.Errorf("%s rows are kept", got)
	}
}

// Last messages get noticeTime; a short drain gives them half of its time.
func TestUntilLastWords(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{30 * time.Second: 29 * time.Second, time.Second: time.Second / 2, 0: 0} {
		if got := untilNotice(left); got != want {
			t.Errorf("of %v: %v", left, got)
		}
	}
}
