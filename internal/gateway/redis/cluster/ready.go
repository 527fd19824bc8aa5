package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Readiness is checked as a client would: by connecting and by PING. Connecting is not enough, since a kernel
// accepts connections for a stopped server, and a server that is loading its data accepts them too.

var (
	errNoNodes   = errors.New("no cluster node has been found yet")
	errNoPrimary = errors.New("the Sentinels have not named a primary yet")
)

// Ready reports whether clients would be served: whether the first listener leads to a node that answers,
// with Sentinels to the primary. notes lists problems that do not prevent that. Slots without a working
// primary are only a note: sending clients elsewhere would not give them those slots, and would take the
// working ones from them.
func (c *Cluster) Ready(ctx context.Context) (notes []string, err error) {
	if len(c.table.Load().all) == 0 {
		c.pollRounds.await(ctx, nil) // the gateway may have just started
	}
	t, trouble := c.table.Load(), c.pollErrors()
	if len(t.all) == 0 {
		return nil, c.noServerError(trouble)
	}
	served := false
	var down []error // nodes to which clients of the first listener are led
	for i, err := range c.pingAll(ctx, t.all) {
		n := t.all[i].node.Load()
		leads := c.cfg.Sentinel == nil || n.primary
		if err == nil {
			served = served || leads
			continue
		}
		err = fmt.Errorf("%s: %w", Address(n.dialHost(), n.port), err)
		notes = append(notes, err.Error())
		if leads {
			down = append(down, err)
		}
	}
	switch {
	case served:
		return slices.Concat(notes, t.uncovered(c.cfg.Sentinel == nil), trouble), nil
	case len(down) == 0:
		return nil, c.noServerError(trouble)
	}
	return nil, errors.Join(down...)
}

// noServerError returns the error for no known server.
func (c *Cluster) noServerError(trouble []string) error {
	err := errNoNodes
	if c.cfg.Sentinel != nil {
		err = errNoPrimary
	}
	if len(trouble) > 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(trouble, "; "))
	}
	return err
}

// pollErrors returns the errors of the last poll.
func (c *Cluster) pollErrors() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pollError == "" {
		return nil
	}
	return strings.Split(c.pollError, "\n")
}

func (c *Cluster) pingAll(ctx context.Context, all []*member) []error {
	errs := make([]error, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() {
			defer gateway.CatchPanic(c.log, c.cfg.Stats, func() { errs[i] = gateway.ErrPanicked })
			errs[i] = Ping(ctx, c.dial(m, nil))
		})
	}
	asked.Wait()
	return errs
}

// maxPong limits the answers to PING, in bytes.
const maxPong = 512

// Ping connects and sends PING. It accepts the answers of servers that require a password, are busy with a
// script, or refuse writes because they can't save. Any other error means that the server serves no clients.
func Ping(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReaderSize(conn, maxPong).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("no answer to PING: %w", err)
	}
	word, _, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	if slices.Contains([]string{"+PONG", "-NOAUTH", "-NOPERM", "-BUSY", "-MISCONF"}, word) {
		return nil
	}
	return fmt.Errorf("unexpected answer to PING: %.100q", strings.TrimSpace(string(line)))
}

// uncovered returns a note about a cluster's slots without a working primary.
func (t *nodeTable) uncovered(cluster bool) []string {
	if !cluster {
		return nil
	}
	var covered [slotCount]bool
	for _, m := range t.all {
		n := m.node.Load()
		if !n.primary || n.failed || m.stale.Load() {
			continue
		}
		for _, r := range n.slots {
			for slot := r.first; slot <= r.last; slot++ {
				covered[slot] = true
			}
		}
	}
	var gaps []string
	for first := 0; first < slotCount; first++ {
		if covered[first] {
			continue
		}
		last := first
		for last+1 < slotCount && !covered[last+1] {
			last++
		}
		gaps = append(gaps, fmt.Sprintf("%d-%d", first, last))
		first = last
	}
	if len(gaps) == 0 {
		return nil
	}
	if len(gaps) > maxGaps {
		gaps = append(gaps[:maxGaps], "…")
	}
	return []string{"no working primary has the slots " + strings.Join(gaps, " ")}
}

const maxGaps = 20 // in a note
