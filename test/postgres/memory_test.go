package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A mirror's memory stays in its limit, of which a large COPY may take a quarter.
func TestMemory(t *testing.T) {
	testenv.Full(t)
	s := startServers(t)
	for _, server := range s.all() {
		testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", server.Port, "-U", "postgres", "-c", "CREATE TABLE work (client int, n int, v text)")
	}
	t.Run("a large COPY", s.largeCopy)
	t.Run("frozen targets", s.frozenTargets)
}

// largeCopy checks that a COPY is mirrored if it fits into that quarter.
func (s servers) largeCopy(t *testing.T) {
	const rows = 80
	m := s.mirror(t, "--memory", "1GiB")
	c := dial(t, m.addr)
	var data strings.Builder
	for n := range rows {
		fmt.Fprintf(&data, "0\t%d\t%s\n", n, strings.Repeat("v", mib))
	}
	if _, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader(data.String()), "COPY work FROM STDIN"); err != nil {
		t.Fatal(err)
	}
	m.settle(t, 1)
	s.same(t, "postgres", "work")
}

// frozenTargets freezes both targets while clients write several times as much as the mirror may hold.
// Clients see no error, and the process stays within the limit that docs/SHADOW.md names.
func (s servers) frozenTargets(t *testing.T) {
	const memory, clients, rows, copied = 64 * mib, 8, 12, 4
	m := s.mirror(t, "--memory", strconv.Itoa(memory))
	dial(t, m.addr) // the mirror has started when it serves a client
	s.control.Freeze(t)
	s.test.Freeze(t)
	value := strings.Repeat("v", mib)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			c := dial(t, m.addr)
			for n := range rows {
				if _, err := c.Exec(t.Context(), "INSERT INTO work VALUES ($1, $2, $3)", client, n, value); err != nil {
					t.Error(err)
					return
				}
			}
			got, err := c.PgConn().CopyFrom(t.Context(), strings.NewReader(strings.Repeat(fmt.Sprintf("%d\t-1\t%s\n", client, value), copied)), "COPY work FROM STDIN")
			if err != nil || got.RowsAffected() != copied {
				t.Error(got, err)
			}
		})
	}
	all.Wait()
	peak, most := testenv.OwnPeak(t, m.pid), int64(memory*12/10+48*mib+clients*48<<10)
	t.Logf("%d MiB at most, with --memory %d MiB", peak/mib, memory/mib)
	if peak > most {
		t.Errorf("%d MiB, more than %d", peak/mib, most/mib)
	}
}
