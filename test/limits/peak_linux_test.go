package limits

import (
	"flag"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/cinch-layer/cinch/test/testenv"
)

var long = flag.Bool("limits.long", false, "many more calls, connections and rounds")

// peakOf is the promise of docs/CONFIG.md: the most that a process takes with a budget, so many
// connections, and a largest message that is beyond the budget.
func peakOf(budget, connections, largest int) int64 {
	return int64(budget+budget/4+2*largest) + 96*mb + int64(connections)*(32<<10)
}

// Clients that move large values in both directions, and readers that stop among them, take no more
// than the budget promises, whatever it is.
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
			clients, rounds := 36, 1 // whose values take more than 64 MiB
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
