package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/system/durable"
)

// Step is a step in the replacement of a node.
type Step string

// Steps.
const (
	StepCheck     Step = "check"
	StepProvision Step = "provision"
	StepBackup    Step = "backup"
	StepStart     Step = "start"
	StepCatchUp   Step = "catch up"
	StepGates     Step = "gates"
	StepJoin      Step = "join"
	StepRetire    Step = "retire"
	StepHold      Step = "hold"
	StepFence     Step = "fence"
	StepPromote   Step = "promote"
	StepMove      Step = "move"
	StepFollow    Step = "follow"
	StepKeep      Step = "keep"
	StepDestroy   Step = "destroy"
)

var (
	standbySteps = []Step{StepCheck, StepProvision, StepBackup, StepStart, StepCatchUp, StepGates, StepJoin, StepRetire, StepKeep, StepDestroy}
	primarySteps = []Step{StepCheck, StepProvision, StepBackup, StepStart, StepCatchUp, StepGates, StepHold, StepFence, StepPromote, StepMove, StepFollow, StepKeep, StepDestroy}
)

// State is the progress of a roll-out, as stored in its file.
type State struct {
	Version int      `json:"version"`
	ID      string   `json:"id,omitempty"` // distinguishes this roll-out's files from another's
	Cell    string   `json:"cell"`
	Order   []string `json:"order"`   // names of the nodes; the primary goes last
	Primary string   `json:"primary"` // the node of Order that is the primary, itself or by its replacement
	At      int      `json:"at"`      // index in Order
	Step    Step     `json:"step"`    // the next step, or the one being taken
	Done    bool     `json:"done"`
	Aborted bool     `json:"aborted"`

	Nodes   map[string]*Progress `json:"nodes"`
	Actions []Action             `json:"actions"`
}

// Progress is the state of one node's replacement.
type Progress struct {
	Made      string `json:"made,omitempty"` // the new node and its directory, once made
	Replaced  bool   `json:"replaced"`
	Confirmed bool   `json:"confirmed"`
	Erased    string `json:"erased,omitempty"` // the old node and its directory, being removed
	Destroyed bool   `json:"destroyed"`
	OldSlot   string `json:"old_slot,omitempty"`   // slot that the old node used at its primary
	OldStream bool   `json:"old_stream,omitempty"` // the old node streamed from there
	Mark      string `json:"mark,omitempty"`       // content of the old primary's standby.signal
	// Where the last record of the old primary begins, after its shutdown.
	LastWAL string         `json:"last_wal,omitempty"`
	Tags    map[string]any `json:"tags,omitempty"`     // the old node's Patroni tags while in service
	HeldAt  time.Time      `json:"held_at,omitzero"`   // when new transactions began to wait
	Pause   time.Duration  `json:"pause_ns,omitempty"` // how long they waited

	Old        Size          `json:"old,omitzero"`       // of the old node, at the first check
	Predicted  Prediction    `json:"predicted,omitzero"` // of the new node
	Backup     Size          `json:"backup,omitzero"`    // of the new node, just after the base backup
	BackupTook time.Duration `json:"backup_ns,omitempty"`
	Now        Size          `json:"now,omitzero"`     // of the new node, at the last check
	Serves     string        `json:"serves,omitempty"` // the node in service and its role, as found by Look
}

// Action is something that was done.
type Action struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Node string    `json:"node,omitempty"`
	Text string    `json:"text"`
}

const stateVersion = 1

// ErrState is wrapped by errors about a state file.
var ErrState = errors.New("the state file")

// readState reads a state file. It returns nil if there is none.
func readState(name string) (*State, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrState, name, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%w %s has version %d, and this cinch supports %d: continue with the version that began the roll-out", ErrState, name, s.Version, stateVersion)
	}
	return &s, nil
}

// validate returns an error if a state is damaged, or does not fit the cell's file as it is now: continuing
// would do unknown things.
func (s *State) validate(c *Cell) error {
	if s.Cell != c.Name {
		return fmt.Errorf("belongs to the cell %s", s.Cell)
	}
	if len(s.Order) != len(c.Nodes) {
		return fmt.Errorf("has the nodes %v, but the cell's file has %d", s.Order, len(c.Nodes))
	}
	for i, name := range s.Order {
		n, p := c.node(name), s.Nodes[name]
		switch {
		case n == nil:
			return fmt.Errorf("has a node %s, but the cell's file does not", name)
		case p == nil || slices.Contains(s.Order[:i], name):
			return fmt.Errorf("is inconsistent (node %s): restore it from a backup", name)
		case p.Made != "" && p.Made != n.Replacement.where() && !(s.Aborted && i == s.At):
			return fmt.Errorf("has %s as the replacement of %s, but the cell's file now has %s: restore the file, or abort first", p.Made, name, n.Replacement.where())
		}
	}
	if s.At < 0 || s.At >= len(s.Order) || !slices.Contains(s.Order, s.Primary) || !slices.Contains(s.steps(), s.Step) {
		return fmt.Errorf("is inconsistent (node %d, step %q, primary %q): restore it from a backup", s.At, s.Step, s.Primary)
	}
	return nil
}

// where returns a text that identifies a node and its directory in the state file.
func (n *Node) where() string { return n.Name + " in " + n.Directory }

// write replaces a file. Its content is on the disk when write returns.
func (s *State) write(name string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(name, append(b, '\n'))
}

// lockTime limits the wait for the lock of a process that was killed: a command that it was starting keeps
// the lock for a moment.
const lockTime = 3 * time.Second

// lock prevents concurrent roll-outs of the same cell. The lock ends with the process.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(lockTime / 100) {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { _ = f.Close() }, nil
		}
		if time.Since(began) > lockTime {
			_ = f.Close()
			return nil, fmt.Errorf("%w %s is in use: another cinch rollout of this cell is running", ErrState, name)
		}
	}
}

// whoami returns the user and host for an action.
func whoami() string {
	name, host := "?", "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if who := os.Getenv("SUDO_USER"); who != "" {
		name = who + " as " + name
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// steps returns the steps for the current node.
func (s *State) steps() []Step {
	if s.primaryTurn() {
		return primarySteps
	}
	return standbySteps
}

// again lets the replacement of a node begin anew after an abort. It discards everything about the earlier try:
// that new node is gone, so its confirmation must not count, and the next one may have another directory.
func (s *State) again() {
	s.Aborted, s.Step = false, StepCheck
	*s.Nodes[s.Order[s.At]] = Progress{}
}

// primaryTurn reports whether the current node is, or was, the primary.
func (s *State) primaryTurn() bool { return s.Order[s.At] == s.Primary }
