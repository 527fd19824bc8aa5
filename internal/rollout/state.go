package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Step of the replacement of a node.
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

// State is how far a roll-out has come, as its file has it.
type State struct {
	Version int      `json:"version"`
	ID      string   `json:"id,omitempty"` // tells what this roll-out has made from what another one has
	Cell    string   `json:"cell"`
	Order   []string `json:"order"`   // of the nodes that are replaced; the primary goes last
	Primary string   `json:"primary"` // the node of Order that is the primary, by itself or by its replacement
	At      int      `json:"at"`      // in Order
	Step    Step     `json:"step"`    // that is to be taken, or was being taken
	Done    bool     `json:"done"`
	Aborted bool     `json:"aborted"`

	Nodes   map[string]*Progress `json:"nodes"`
	Actions []Action             `json:"actions"`
}

// Progress is what is known of a node that is replaced.
type Progress struct {
	Made      string         `json:"made,omitempty"` // the new node, and where its directory has been made
	Replaced  bool           `json:"replaced"`
	Confirmed bool           `json:"confirmed"`
	Erased    string         `json:"erased,omitempty"` // the old node, and the directory that is being removed
	Destroyed bool           `json:"destroyed"`
	OldSlot   string         `json:"old_slot,omitempty"`   // that the old node used at its primary
	OldStream bool           `json:"old_stream,omitempty"` // the old node streamed from there
	Mark      string         `json:"mark,omitempty"`       // in standby.signal of the old primary
	LastWAL   string         `json:"last_wal,omitempty"`   // where the last record of the old primary begins, which was shut down
	Tags      map[string]any `json:"tags,omitempty"`       // Patroni's, of the old node, while it was in its place
	Written   int64          `json:"written,omitempty"`    // position in the WAL behind all that clients wrote before they were held
	HeldAt    time.Time      `json:"held_at,omitzero"`     // when new transactions began to wait
	Pause     time.Duration  `json:"pause_ns,omitempty"`   // for which they did

	Old        Size          `json:"old,omitzero"`       // what the node took when it was looked at first
	Predicted  Prediction    `json:"predicted,omitzero"` // of the new one
	Backup     Size          `json:"backup,omitzero"`    // what the new one took just after the base backup
	BackupTook time.Duration `json:"backup_ns,omitempty"`
	Now        Size          `json:"now,omitzero"`     // what it took when it was looked at last
	Serves     string        `json:"serves,omitempty"` // which node, and as what: what Look has found
}

// Action is something that was done.
type Action struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Node string    `json:"node,omitempty"`
	Text string    `json:"text"`
}

const stateVersion = 1

// ErrState is wrapped by what is wrong with a state file.
var ErrState = errors.New("the state file")

// readState reads a file. One that is not there is nil.
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
		return nil, fmt.Errorf("%w %s is of version %d, and this cinch knows %d: go on with the one that began", ErrState, name, s.Version, stateVersion)
	}
	return &s, nil
}

// validate fails when a state is damaged, or is not that of a cell as its file is now: a roll-out that went on would not know what it does.
func (s *State) validate(c *Cell) error {
	if s.Cell != c.Name {
		return fmt.Errorf("is that of the cell %s", s.Cell)
	}
	if len(s.Order) != len(c.Nodes) {
		return fmt.Errorf("has the nodes %v, and the cell's file has %d", s.Order, len(c.Nodes))
	}
	for i, name := range s.Order {
		n, p := c.node(name), s.Nodes[name]
		switch {
		case n == nil:
			return fmt.Errorf("has a node %s, and the cell's file has none", name)
		case p == nil || slices.Contains(s.Order[:i], name):
			return fmt.Errorf("is damaged: node %s", name)
		case p.Made != "" && p.Made != n.Replacement.where() && !(s.Aborted && i == s.At):
			return fmt.Errorf("has %s in the place of %s, and the cell's file says %s now: put that back, or abort first", p.Made, name, n.Replacement.where())
		}
	}
	if s.At < 0 || s.At >= len(s.Order) || !slices.Contains(s.Order, s.Primary) || !slices.Contains(s.steps(), s.Step) {
		return fmt.Errorf("is damaged: node %d, step %q, primary %q", s.At, s.Step, s.Primary)
	}
	return nil
}

// where is a node as a state names it.
func (n *Node) where() string { return n.Name + " in " + n.Directory }

// write replaces a file. Its content is on the disk when this returns.
func (s *State) write(name string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := os.CreateTemp(dir.Name(), ".cinch-rollout")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return dir.Sync()
}

// lockTime is for a process that was killed to let go of a lock: a command that it was about to start has it for another moment.
const lockTime = 3 * time.Second

// lock keeps others from rolling out the same cell at the same time. The lock ends with the process.
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
			return nil, fmt.Errorf("%w %s is in use: another cinch rollout is at work on this cell", ErrState, name)
		}
	}
}

// whoami is who an action is by.
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

// steps of the node that is replaced.
func (s *State) steps() []Step {
	if s.primaryTurn() {
		return primarySteps
	}
	return standbySteps
}

// again begins with a node anew that was given up. Nothing of the earlier try counts: no confirmation of a new node that is gone, and no directory, which may be another
// one now.
func (s *State) again() {
	s.Aborted, s.Step = false, StepCheck
	*s.Nodes[s.Order[s.At]] = Progress{}
}

// primaryTurn reports whether the node that is replaced now is, or was, the primary.
func (s *State) primaryTurn() bool { return s.Order[s.At] == s.Primary }
