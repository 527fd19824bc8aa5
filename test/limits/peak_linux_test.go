package limits

import (
	"flag"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/cinch-layer/cinch/test/testenv"
)

var long = flag.Bool("limits.long", false, "many more calls, connections and rounds")

// peakOf returns the peak that docs/CONFIG.md promises, in bytes, for a budget, a number of connections,
// and the size of the largest message that exceeds the budget.
func peakOf(budget, connections, largest int) int64 {
	return int64(budget+budget/4+2*largest) + 96*mb + int64(connections)*(32<<10)
}

// Clients that send and receive large values, and stopped readers among them, use no more memory than
// documented for the budget.
func TestPeakOfABudget(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{64, 256} {
		t.Run(fmt.Sprint(budget, " MiB"), func(t *testing.T) {
			if budget != 64 {
				testenv.Full(t)
			}
			s := testenv.Redis(t)
			g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: s.Addr, Args: []string{"--memory", fmt.Sprintf("%dMiB", budget)}})
			bigValue(t, g)
			readersOfNothing(t, g, 20)
			clients, rounds := 36, 1 // their values exceed 64 MiB
			if testenv.IsFull() {
				clients, rounds = 48, 2
			}
			if *long {
				clients, rounds = 256, 8
			}
			var values [4][]byte
			for i := range values {
				values[i] = document(2*mb, uint64(i))
			}
			var all errgroup.Group
			for i := range clients {
				c, value := mustDial(t, g.Addr), values[i%len(values)]
				all.Go(func() error {
					for range rounds {
						if err := c.set(fmt.Sprint("large:", i), value); err != nil {
							return fmt.Errorf("client %d: %w", i, err)
						}
						if err := c.getIs(fmt.Sprint("large:", i), value); err != nil {
							return fmt.Errorf("client %d: %w", i, err)
						}
					}
					return nil
				})
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
			mustStayUnder(t, g.Pid(), peakOf(budget*mb, clients+20, 0))
		})
	}
}
