package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/internal/switchover/rollout/patroni"
)

// Cell is the content of a cell's file: a primary and its standbys, and the nodes that are to replace them.
type Cell struct {
	Name  string `yaml:"cell"`
	State string `yaml:"state"` // file; default: the cell's file with .state.json added
	Nodes []Node `yaml:"nodes"`

	Gateway     Gateway `yaml:"gateway"`     // the gateway that clients connect through
	Replication string  `yaml:"replication"` // connection parameters for standbys: user, passfile, sslmode
	Gates       Gates   `yaml:"gates"`
	Hooks       Hooks   `yaml:"hooks"`

	// LeftBehind names standbys and slots that are not nodes of the cell and that the operator looks after:
	// by application_name, or by the slot's name.
	LeftBehind []string `yaml:"left_behind"`

	Patroni *patroni.Access `yaml:"patroni"` // set if Patroni manages the cell: access to its REST API
}

// Gateway is a running cinch serve --postgres.
type Gateway struct {
	Admin     string `yaml:"admin"`      // its admin page: host:port, unix:/path or a URL
	TokenFile string `yaml:"token_file"` // its admin.token_file
	Name      string `yaml:"name"`       // default: postgres
	Upstream  string `yaml:"upstream"`   // its host:port for the primary, if not that of url
	// Policy for sessions that can't be moved: abort (the roll-out stops) or end.
	Unmovable string          `yaml:"unmovable"`
	Patience  config.Duration `yaml:"patience"` // how long to wait until they can be moved
}

// Gates are the conditions for a new node to replace the old one. After each semicolon stands the default.
type Gates struct {
	Lag      config.Bytes    `yaml:"lag"`      // WAL that it may be behind; 1 MiB
	CatchUp  config.Duration `yaml:"catch_up"` // how long the lag may stop shrinking; 10 min
	Sample   config.Bytes    `yaml:"sample"`   // bytes of each table that are compared row by row; 16 MiB
	Amcheck  *bool           `yaml:"amcheck"`  // check indexes where the extension is installed; true
	Hold     config.Duration `yaml:"hold"`     // how long open transactions may take once new ones wait; 10 s
	Shutdown config.Duration `yaml:"shutdown"` // how long the old primary may take to shut down; 60 s
	Shadow   Shadow          `yaml:"shadow"`   // a mirror's verdict on the new configuration; none
}

// Hooks are commands of the operator. They run on this machine. Hold and Release have CINCH_CELL in their environment,
// the others also CINCH_NODE, CINCH_NEW_NODE, CINCH_NEW_URL and CINCH_NEW_DIRECTORY.
type Hooks struct {
	Provision []string `yaml:"provision"` // makes the machine and the directory
	Restore   []string `yaml:"restore"`   // in place of pg_basebackup
	Join      []string `yaml:"join"`      // a standby that passed its gates may get reads
	Hold      []string `yaml:"hold"`      // without a gateway: make clients wait
	Move      []string `yaml:"move"`      // direct clients to the new primary
	Release   []string `yaml:"release"`   // let clients continue
	Fence     []string `yaml:"fence"`     // make sure that the old primary takes no writes, whatever its state
	Gate      []string `yaml:"gate"`      // an additional gate
	Destroy   []string `yaml:"destroy"`   // in place of the removal of the directory
}

// ErrCell is wrapped by errors in a cell's file.
var ErrCell = errors.New("cell file")

// ReadCell reads a cell's file, and sets the defaults.
func ReadCell(name string) (*Cell, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c := &Cell{State: name + ".state.json"}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrCell, name, err)
	}
	c.Gates.fill()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrCell, name, err)
	}
	return c, nil
}

func (g *Gates) fill() {
	g.Shadow.fill()
	for _, d := range []struct {
		to *config.Duration
		is time.Duration
	}{{&g.CatchUp, 10 * time.Minute}, {&g.Hold, 10 * time.Second}, {&g.Shutdown, time.Minute}} {
		if *d.to == 0 {
			*d.to = config.Duration(d.is)
		}
	}
	if g.Lag == 0 {
		g.Lag = 1 << 20
	}
	if g.Sample == 0 {
		g.Sample = 16 << 20
	}
	if g.Amcheck == nil {
		yes := true
		g.Amcheck = &yes
	}
}

func (c *Cell) validate() error {
	if c.Name == "" || len(c.Nodes) == 0 {
		return errors.New("set the cell's name (cell) and its nodes")
	}
	if (c.Gateway.Admin == "") == (c.Hooks.Hold == nil || c.Hooks.Move == nil || c.Hooks.Release == nil) {
		return errors.New("set gateway: {admin: admin page of the gateway that clients use, token_file: ...}, or the hooks hold, move and release")
	}
	if u := c.Gateway.Unmovable; u != "" && u != control.Abort && u != control.End {
		return fmt.Errorf("gateway: unmovable must be %s or %s, not %q", control.Abort, control.End, u)
	}
	if c.Patroni != nil && c.Hooks.Fence != nil {
		return errors.New("hooks: remove fence: Patroni fences by itself (its watchdog)")
	}
	if err := c.Gates.Shadow.validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, n := range c.Nodes {
		if n.Replacement == nil {
			return fmt.Errorf("node %s has no replacement", n.Name)
		}
		for _, one := range []*Node{&n, n.Replacement} {
			if err := errors.Join(one.validate(), one.validateAgent(c.Patroni != nil)); err != nil {
				return err
			}
			if seen[one.Name] {
				return fmt.Errorf("duplicate node name %s", one.Name)
			}
			if seen[one.slot()] {
				return fmt.Errorf("the slot of node %s, %s, is also that of another node: change a name", one.Name, one.slot())
			}
			if seen[one.server()] {
				return fmt.Errorf("node %s has the url of another node: %s", one.Name, one.server())
			}
			seen[one.Name], seen[one.slot()], seen[one.server()] = true, true, true
		}
		if n.Replacement.Replacement != nil {
			return fmt.Errorf("node %s is a replacement and can't have a replacement", n.Replacement.Name)
		}
	}
	return c.validateDirectories()
}

// validateDirectories refuses new directories that lie within others of the same machine, or contain them:
// removing one would remove the other.
func (c *Cell) validateDirectories() error {
	type place struct {
		node      *Node
		directory string
	}
	var made, all []place
	for i := range c.Nodes {
		n := &c.Nodes[i]
		for _, d := range n.Replacement.directories() {
			made = append(made, place{n.Replacement, d})
		}
		for _, d := range append(slices.Sorted(maps.Keys(n.Replacement.Tablespaces)), n.Directory) {
			all = append(all, place{n, d})
		}
	}
	all = append(all, made...)
	for _, p := range all {
		if !path.IsAbs(p.directory) {
			return fmt.Errorf("node %s: the directory %q must begin with /", p.node.Name, p.directory)
		}
		for _, m := range made {
			if m != p && slices.Equal(m.node.Run, p.node.Run) && (isWithin(m.directory, p.directory) || isWithin(p.directory, m.directory)) {
				return fmt.Errorf("directories of %s and %s are the same or nested: %s, %s", m.node.Name, p.node.Name, m.directory, p.directory)
			}
		}
	}
	return nil
}

// isWithin reports whether the directory one equals other or lies in it, by name.
func isWithin(one, other string) bool {
	return strings.HasPrefix(path.Clean(one)+"/", strings.TrimSuffix(path.Clean(other), "/")+"/")
}

func (c *Cell) node(name string) *Node {
	for i := range c.Nodes {
		if c.Nodes[i].Name == name {
			return &c.Nodes[i]
		}
	}
	return nil
}

func (c *Cell) catchUpTime() time.Duration  { return time.Duration(c.Gates.CatchUp) }
func (c *Cell) holdTime() time.Duration     { return time.Duration(c.Gates.Hold) }
func (c *Cell) shutdownTime() time.Duration { return time.Duration(c.Gates.Shutdown) }

func values(m map[string]string) (list []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	return list
}
