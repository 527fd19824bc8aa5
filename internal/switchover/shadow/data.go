package shadow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// DataChecker is a Protocol that can compare the servers' data while it is not written to.
type DataChecker interface {
	// CheckData compares the data of all servers with that of the first.
	CheckData(ctx context.Context, how DataCheck, servers ...*Target) ([]TableState, error)
}

// TableState is the result of a data check for one table.
type TableState struct {
	Name       string   `json:"name"`
	State      string   `json:"state"`
	Why        string   `json:"why,omitempty"`
	Rows       []int64  `json:"rows,omitempty"` // compared, at each server
	Sampled    bool     `json:"sampled,omitempty"`
	Left       []string `json:"left,omitempty"` // columns left out, with reasons
	Production string   `json:"production,omitempty"`
}

// States of a table.
const (
	TableEqual   = "equal"
	TableDiffers = "differs"
	TableSkipped = "not compared"
)

// stored checks the data of a run's targets, and keeps the result.
type stored struct {
	cfg     *Config
	servers []*Target

	mu      sync.Mutex
	done    bool
	found   []TableState
	trouble string // why the comparison is incomplete
}

func newStored(cfg *Config, targets []*Target) *stored {
	s := &stored{cfg: cfg, servers: slices.Clone(targets)}
	if cfg.DataProduction {
		s.servers = append(s.servers, &Target{Name: "production", Upstream: cfg.Production})
	}
	return s
}

// checker returns the DataChecker, if a check is configured.
func (s *stored) checker() (c DataChecker, ok bool) {
	c, ok = s.cfg.Protocol.(DataChecker)
	return c, ok && s.cfg.DataCheck != DataOff && s.cfg.DataCheck != ""
}

// compare runs the check, if one is configured. No client may write to the servers meanwhile.
func (s *stored) compare(ctx context.Context) {
	c, ok := s.checker()
	if !ok {
		return
	}
	found, err := s.ask(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.found = found; err != nil {
		s.trouble = err.Error()
	}
}

var errOff = errors.New("the mirror was turned off")

// ask runs the check. The error says why the comparison is incomplete.
func (s *stored) ask(ctx context.Context, c DataChecker) ([]TableState, error) {
	if ctx.Err() != nil {
		return nil, errOff
	}
	limited, cancel := context.WithTimeout(ctx, s.cfg.DataTime)
	defer cancel()
	found, err := c.CheckData(limited, s.cfg.DataCheck, s.servers...)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, fmt.Errorf("%w: %w", errOff, err)
	case limited.Err() != nil:
		return found, fmt.Errorf("it took longer than --data-check-time %v: %w", s.cfg.DataTime, err)
	}
	return found, err
}

// missing returns what a configured check has not compared of the targets; "": nothing.
func (s *stored) missing() string {
	if _, wanted := s.checker(); !wanted {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		return "the data have not been compared yet"
	}
	if s.trouble != "" {
		return "the data comparison is incomplete: " + s.trouble
	}
	for _, t := range s.found {
		if t.State == TableSkipped && t.Production == "" {
			return "the data comparison is incomplete: " + t.String()
		}
	}
	return ""
}

func (s *stored) state() (found []TableState, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found, s.trouble
}

// differing returns the names of the tables that differ.
func (s *stored) differing() (names []string) {
	found, _ := s.state()
	for _, t := range found {
		if t.State == TableDiffers {
			names = append(names, t.Name)
		}
	}
	return names
}

// tellData summarizes the result of a data check in a few lines.
func tellData(w io.Writer, all []TableState) {
	count := map[string]int{}
	sampled, rows := 0, int64(0)
	for _, t := range all {
		count[t.State]++
		if t.Sampled {
			sampled++
		}
		if len(t.Rows) > 0 {
			rows += t.Rows[control]
		}
	}
	fmt.Fprintf(w, "Data: %d tables equal, %d differ, %d not compared; %d rows compared; %d tables were sampled.\n",
		count[TableEqual], count[TableDiffers], count[TableSkipped], rows, sampled)
	for _, t := range all {
		if t.State != TableEqual || t.Production == TableDiffers {
			fmt.Fprintf(w, "  %s\n", t)
		}
	}
	for _, t := range all {
		if len(t.Left) > 0 {
			fmt.Fprintf(w, "  %s, columns left out: %s\n", t.Name, strings.Join(t.Left, "; "))
		}
	}
}

// String returns a line for people.
func (t TableState) String() string {
	line := t.Name + ": " + t.State
	if t.Why != "" {
		line += ", " + t.Why
	}
	if t.Production == TableDiffers {
		line += "; production has different data"
	}
	return line
}
