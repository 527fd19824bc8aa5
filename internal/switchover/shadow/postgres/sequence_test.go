package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

const familySchema = `CREATE TABLE parents (id serial PRIMARY KEY, who text UNIQUE);
	CREATE TABLE children (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES parents, note text)`

// families are rows with numbers of serial and identity columns, and rows that refer to them. Some inserts
// fail, and some are rolled back.
func families(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		if err := family(ctx, c, fmt.Sprintf("%d/%d", client, n), r); err != nil {
			return err
		}
	}
	return nil
}

func family(ctx context.Context, c *pgx.Conn, who string, r *rand.Rand) error {
	var id int
	if r.IntN(5) == 0 {
		_ = c.QueryRow(ctx, "INSERT INTO parents (who) VALUES ('0/0') RETURNING id").Scan(&id) // refused, if it is there
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := tx.QueryRow(ctx, "INSERT INTO parents (who) VALUES ($1) ON CONFLICT (who) DO UPDATE SET who = excluded.who RETURNING id", who).Scan(&id); err != nil {
		return err
	}
	for range r.IntN(3) {
		var child int64
		if err := tx.QueryRow(ctx, "INSERT INTO children (parent, note) VALUES ($1, $2) RETURNING id", id, who).Scan(&child); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE children SET note = note || '!' WHERE id = $1", child); err != nil {
			return err
		}
	}
	if r.IntN(6) == 0 {
		return nil
	}
	return tx.Commit(ctx)
}

const nextvalSchema = "CREATE SEQUENCE one; CREATE SEQUENCE ten INCREMENT 5 CACHE 10; CREATE TABLE tickets (n bigint, of text, who text, PRIMARY KEY (n, of))"

// nextvals takes numbers from two sequences and writes them elsewhere. Sessions cache numbers of one of them.
func nextvals(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		of := []string{"one", "ten"}[r.IntN(2)]
		var ticket, again int64
		if err := c.QueryRow(ctx, "SELECT nextval('"+of+"')").Scan(&ticket); err != nil {
			return err
		}
		if err := c.QueryRow(ctx, "SELECT currval('"+of+"')").Scan(&again); err != nil || again != ticket {
			return fmt.Errorf("currval %d, not %d: %w", again, ticket, err)
		}
		if _, err := c.Exec(ctx, "INSERT INTO tickets VALUES ($1, $2, $3)", ticket, of, fmt.Sprintf("%d/%d", client, n)); err != nil {
			return err
		}
	}
	return nil
}

// Rows whose numbers no client gets: all their other columns equal production's, and the column is reported.
func TestNumbersThatNobodyIsTold(t *testing.T) {
	b := newBench(t, "CREATE TABLE events (id serial PRIMARY KEY, who text)", func(c *shadow.Config) { c.DataCheck, c.DataProduction = shadow.DataFull, true })
	crowd(t, b.clients(t, crowdClients()), func(ctx context.Context, c *pgx.Conn, client int, _ *rand.Rand) error {
		for n := range rounds(20) {
			var last, current int64
			if _, err := c.Exec(ctx, "INSERT INTO events (who) VALUES ($1)", fmt.Sprintf("%d/%d", client, n)); err != nil {
				return err
			}
			if err := c.QueryRow(ctx, "SELECT lastval(), currval('events_id_seq')").Scan(&last, &current); err != nil || last != current {
				return fmt.Errorf("lastval %d, currval %d: %w", last, current, err)
			}
		}
		return nil
	})
	r := b.settle(t)
	b.same(t, "(SELECT who FROM events) AS t", "(SELECT id FROM events) AS t")
	if r.Outcome == "VOID" || notEqual(r.Data) != "" {
		t.Errorf("%s %q %s", r.Outcome, r.Reasons, notEqual(r.Data))
	}
	left := func(d shadow.TableState) bool {
		return strings.Contains(strings.Join(d.Left, "\n"), "id: numbers of a sequence")
	}
	if !slices.ContainsFunc(r.Data, left) {
		t.Errorf("the column is not named: %v", r.Data)
	}
}

// sequence simulates a server's sequence, which sessions query and take numbers from.
type sequence struct {
	t      *testing.T
	last   int64
	called bool
}

type sequenceSession struct{ *sequence }

func (s *sequence) take() int64 {
	if s.called {
		s.last++
	}
	s.called = true
	return s.last
}

var setval = regexp.MustCompile(`setval\([^,]*, (\d+)( \+ seqincrement)?, false\)`)

// value simulates the statements in sequences.go.
func (s *sequenceSession) value(text string) (string, error) {
	last := ""
	if s.called {
		last = fmt.Sprint(s.last)
	}
	set := setval.FindStringSubmatch(text)
	if set == nil {
		return last, nil
	}
	n, err := strconv.ParseInt(set[1], 10, 64)
	if err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	if set[2] != "" {
		n++
	}
	s.last, s.called = n, false
	return fmt.Sprintf("1 1 %s %d", cmp.Or(last, "-"), n), nil
}

// A statement that waited for a lock, and ends while a later one is about to take its number, leaves the
// sequence to that one. Then the next number is higher than all given ones, whichever of the two ends last.
func TestSequenceOfTwoUnderWay(t *testing.T) {
	for _, firstEndsFirst := range []bool{true, false} {
		real, known := &sequence{t: t}, &sequences{}
		first, second := &sequenceSession{real}, &sequenceSession{real}
		of := func(n int64) sequenceNumbers { return sequenceNumbers{serial{sequence: "s", increment: 1}, []int64{n}} }
		do := func(what func(*sequences, string, sequenceNumbers, session) error, c session, n int64) {
			t.Helper()
			if err := what(known, "s", of(n), c); err != nil {
				t.Error(err)
			}
		}
		take := func(want int64) {
			t.Helper()
			if got := real.take(); got != want {
				t.Errorf("the first ends first %t: took %d, want %d", firstEndsFirst, got, want)
			}
		}
		do((*sequences).prepare, first, 10)
		take(10) // then waits for a lock
		do((*sequences).prepare, second, 9)
		if firstEndsFirst {
			do((*sequences).restore, first, 10)
		}
		take(9)
		do((*sequences).restore, second, 9)
		if !firstEndsFirst {
			do((*sequences).restore, first, 10)
		}
		take(11)
		do((*sequences).prepare, first, 7) // then fails, so that nothing can be asked
		do((*sequences).release, first, 7)
		if len(known.users) > 0 {
			t.Errorf("in use: %v", known.users)
		}
	}
}

// Operations that may take numbers and don't return them make positions uncertain while they run, and before
// any later operation continues.
func TestSequencesAreUnsure(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	c := &conn{net: client, probe: &progressProbe{}}
	known := &c.probe.sequences
	sure := func() { known.store("s", position{greatest: 4, next: 5, certain: true, plain: true}) }
	unsure := func(when string) {
		if known.get("s").certain {
			t.Errorf("the next number counts as known %s", when)
		}
	}
	go func() {
		defer server.Close()
		if _, err := server.Read(make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		unsure("while a statement is under way")
		sure() // by a concurrent operation
		_, _ = server.Write(pg.Append(pg.Append(nil, pg.CommandComplete, []byte("INSERT 0 1\x00")), pg.ReadyForQuery, []byte{idle}))
	}()
	sure()
	op := &shadow.Operation{Request: pg.AppendQuery(nil, "INSERT INTO t (who) VALUES ('a')"), Private: &opData{effect: advancesSequences}}
	answers := 0
	err := c.sendWithExtras([]*shadow.Operation{op}, time.Now().Add(time.Minute), func(int, shadow.Answer) {
		unsure("when it is answered")
		answers++
	})
	if err != nil || answers != 1 {
		t.Errorf("%d answers, %v", answers, err)
	}
}

// An upsert that returns its numbers is no DO statement, which may set any sequence.
func TestStirs(t *testing.T) {
	for text, want := range map[string]sequenceEffect{
		"INSERT INTO t (who) VALUES ('a') ON CONFLICT (who) DO UPDATE SET who = excluded.who RETURNING id": noSequenceEffect,
		"DO $$ BEGIN PERFORM setval('s', 1); END $$":                                                       setsSequences,
		"DO LANGUAGE plpgsql $$ BEGIN PERFORM setval('s', 1); END $$":                                      setsSequences,
		"SELECT setval('s', 1)": setsSequences,
	} {
		u := &unit{executed: []*sql.Statement{sql.Analyze(text, nil)}, numberScanner: numberScanner{numbers: []sequenceNumbers{{values: []int64{1}}}}}
		if got := u.sequenceEffect(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
