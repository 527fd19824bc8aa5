package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// ReadState reads the state without locking it. It returns nil if no roll-out has begun.
func (c *Cell) ReadState() (*State, error) {
	s, err := readState(c.State)
	if err != nil || s == nil {
		return nil, err
	}
	if err := s.validate(c); err != nil {
		return nil, fmt.Errorf("%w %s %w", ErrState, c.State, err)
	}
	return s, nil
}

// PrintState writes the state as JSON, if there is one.
func (c *Cell) PrintState(w io.Writer) error {
	s, err := c.ReadState()
	if err != nil || s == nil {
		return err
	}
	return json.NewEncoder(w).Encode(s)
}

// lookTimeout limits how long the nodes of a cell may take to answer.
const lookTimeout = 20 * time.Second

// Look updates the state, in memory only, with the current role of each node and the size of each new one on
// disk. The size of a node that does not answer in time stays unchanged.
func (s *State) Look(ctx context.Context, c *Cell) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var looks sync.WaitGroup
	for at, name := range s.Order {
		n, p := c.node(name), s.Nodes[name]
		looks.Go(func() {
			var now Size
			if p.Serves, now = s.look(ctx, at, n); now.Data > 0 {
				p.Now = now
			}
		})
	}
	looks.Wait()
}

// look examines a node, or its replacement if that has taken over.
func (s *State) look(ctx context.Context, at int, n *Node) (serves string, now Size) {
	p, one := s.Nodes[n.Name], n
	if p.Replaced {
		one = n.Replacement
	}
	standby, err := one.inRecovery(ctx)
	switch {
	case err != nil:
		serves = one.Name + " does not answer"
	case standby:
		serves = one.Name + ", standby"
	default:
		serves = one.Name + ", primary"
	}
	if newNode := n.Replacement; p.Backup.Data > 0 && (at < s.At || s.Done || !s.Aborted) {
		now, _ = newNode.diskUse(ctx, newNode.directories()) // 0 if unknown
	}
	return serves, now
}

// Text prints the progress of a roll-out.
func (s *State) Text(w io.Writer) error {
	if err := terminal.Table(w, s.Header(), s.Rows()); err != nil {
		return err
	}
	if len(s.Actions) > 0 {
		fmt.Fprintf(w, "\n%s\n", s.Latest())
	}
	return nil
}

// Header returns the column names for Rows.
func (s *State) Header() []string {
	return []string{"node", "state", "serves", "paused", "was", "predicted", "after the backup", "now"}
}

// Rows returns one row per node.
func (s *State) Rows() [][]string {
	rows := make([][]string, 0, len(s.Order))
	for at, name := range s.Order {
		rows = append(rows, append([]string{name}, s.row(at, s.Nodes[name])...))
	}
	return rows
}

// Latest returns the last action.
func (s *State) Latest() string {
	last := s.Actions[len(s.Actions)-1]
	return fmt.Sprintf("%s by %s: %s", last.At.Format(time.RFC3339), last.By, last.Text)
}

func (s *State) row(at int, p *Progress) []string {
	state := "waits"
	switch {
	case p.Destroyed:
		state = "replaced, destroyed"
	case s.Done || at < s.At:
		state = "replaced"
	case at == s.At && s.Aborted:
		state = "aborted"
	case at == s.At:
		state = string(s.Step)
	}
	pause := ""
	if p.Pause > 0 {
		pause = p.Pause.Round(time.Millisecond).String()
	}
	return []string{
		state, p.Serves, pause, size(p.Old.Data), size(p.Predicted.Bytes),
		withDifference(p.Backup.Data, p.Predicted.Bytes, "%+.1f %%"), withDifference(p.Now.Data, p.Backup.Data, "%+.1f %% since"),
	}
}

func size(n int64) string {
	if n == 0 {
		return ""
	}
	return terminal.Size(n)
}

// withDifference returns a size and its difference from another one.
func withDifference(n, other int64, format string) string {
	if n == 0 || other == 0 {
		return size(n)
	}
	return size(n) + " (" + fmt.Sprintf(format, 100*(share(n, other)-1)) + ")"
}

// publishTime limits how long a gateway may take to store a report.
const publishTime = time.Second

// publishReport puts the progress on the gateway's admin page. It is skipped while clients are held, and its errors
// are ignored.
func (r *Rollout) publishReport() {
	t, ok := r.clients.(through)
	if !ok || slices.Contains([]Step{StepFence, StepPromote, StepMove}, r.state.Step) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTime)
	defer cancel()
	_ = t.gateway.Report(ctx, r.state.report())
}

// report returns the table without the column that only Look can fill.
func (s *State) report() control.Report {
	const serves = 2
	report := control.Report{Title: "Roll-out of " + s.Cell, Header: slices.Delete(s.Header(), serves, serves+1), Latest: s.Latest()}
	for _, row := range s.Rows() {
		report.Rows = append(report.Rows, slices.Delete(row, serves, serves+1))
	}
	return report
}
