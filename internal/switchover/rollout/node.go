package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// Node is a server of a cell: an existing one, or one to be made.
type Node struct {
	Name      string `yaml:"name"`
	URL       string `yaml:"url"`       // postgres://…, of a superuser
	Directory string `yaml:"directory"` // data directory
	// Prefix for commands on its machine, such as [ssh, db1]; none: this machine.
	Run []string `yaml:"run"`
	// The same for compsize, on btrfs, which needs root; none: as run.
	Root []string `yaml:"root"`
	Bin  string   `yaml:"bin"` // directory of PostgreSQL's programs; none: PATH
	// The cinch program there, which predicts the size on disk; none: cinch in its PATH.
	Cinch       string            `yaml:"cinch"`
	Start       []string          `yaml:"start"`       // commands in place of pg_ctl's
	Stop        []string          `yaml:"stop"`        // must shut down cleanly
	Tablespaces map[string]string `yaml:"tablespaces"` // old directory: new directory
	Options     map[string]string `yaml:"options"`     // settings in which the new node differs

	Patroni *Agent `yaml:"patroni"` // the member must have the node's name

	Replacement *Node `yaml:"replacement"`
}

// Agent is the Patroni of a node. The node's start and stop commands start and stop it.
type Agent struct {
	API string `yaml:"api"` // its REST API: http://host:8008
	// Its configuration, on the node's machine. If a replacement's is missing it is made from that of the old
	// node.
	Config string `yaml:"config"`
}

func (n *Node) validate() error {
	u, err := url.Parse(n.URL)
	if err != nil || n.Name == "" || n.Directory == "" || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return fmt.Errorf("node %q needs name, url: postgres://user@host:port/database and directory", n.Name)
	}
	if host, port, _ := n.location(); strings.Contains(host+port, ",") {
		return fmt.Errorf("node %q: its url must have one host: with several, another server could answer for it", n.Name)
	}
	if !slotName.MatchString(n.slot()) {
		return fmt.Errorf("node %q: a name may have letters, digits, - and _ only, as it becomes a replication slot's name", n.Name)
	}
	return nil
}

// validateAgent checks the patroni section, which all nodes must have or none.
func (n *Node) validateAgent(managed bool) error {
	switch {
	case !managed && n.Patroni != nil:
		return fmt.Errorf("node %q has patroni, but the cell has not: set patroni: {} in the cell if the REST API needs no user", n.Name)
	case !managed:
		return nil
	case n.Patroni == nil || n.Patroni.Config == "" || !strings.HasPrefix(n.Patroni.API, "http://") && !strings.HasPrefix(n.Patroni.API, "https://"):
		return fmt.Errorf("node %q needs patroni: {api: http://host:8008, config: its configuration file}", n.Name)
	case len(n.Start) == 0 || len(n.Stop) == 0:
		return fmt.Errorf("node %q needs start and stop: commands that start and stop Patroni there, such as [sudo, systemctl, start, patroni]", n.Name)
	}
	return nil
}

// directories returns the data directory and the tablespaces of a node.
func (n *Node) directories() []string { return append([]string{n.Directory}, values(n.Tablespaces)...) }

// connectTime limits connecting to a server, which may be down.
const connectTime = 5 * time.Second

// connect connects to a node's server.
func (n *Node) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(n.URL)
	if err != nil {
		return nil, err
	}
	if database != "" {
		c.Database = database
	}
	c.ConnectTimeout = connectTime
	c.DialFunc = dial
	c.RuntimeParams["application_name"] = "cinch rollout"
	return pgx.ConnectConfig(ctx, c)
}

// dial makes a connection that fails when the network is down, but not while a query merely takes long.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		endpoint.DetectLostPeer(c)
	}
	return c, err
}

// ask calls f with a connection to a node's server.
func (n *Node) ask(ctx context.Context, f func(*pgx.Conn) error) error {
	c, err := n.connect(ctx, "")
	if err == nil {
		err = f(c)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
		defer cancel()
		_ = c.Close(closing)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// value returns the one value of a query.
func value[T any](ctx context.Context, n *Node, query string, args ...any) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err = n.ask(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, query, args...).Scan(&v) })
	return v, err
}

// reusableConn is a connection for repeated queries. After an error the next query connects again.
type reusableConn struct {
	node *Node
	c    *pgx.Conn
}

// number returns the one number of a query.
func (k *reusableConn) number(ctx context.Context, query string) (v int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if k.c == nil {
		k.c, err = k.node.connect(ctx, "")
	}
	if err == nil {
		err = k.c.QueryRow(ctx, query).Scan(&v)
	}
	if err != nil {
		k.close(ctx)
		return 0, fmt.Errorf("node %s: %w", k.node.Name, err)
	}
	return v, nil
}

// close closes the connection if there is one.
func (k *reusableConn) close(ctx context.Context) {
	if k.c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
	defer cancel()
	_ = k.c.Close(ctx)
	k.c = nil
}

// exec runs a quick statement.
func (n *Node) exec(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return n.ask(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	})
}

// inRecovery reports whether a node is a standby.
func (n *Node) inRecovery(ctx context.Context) (bool, error) {
	return value[bool](ctx, n, "SELECT pg_is_in_recovery()")
}

// checkServer returns an error if the server at a node's URL is not the one in its directory: it has another
// directory, or one of the same name on another machine.
func (n *Node) checkServer(ctx context.Context) error {
	var directory, process string
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := n.ask(asking, func(c *pgx.Conn) error {
		return c.QueryRow(asking, "SELECT current_setting('data_directory'), "+processText).Scan(&directory, &process)
	})
	if err != nil {
		return err
	}
	out, err := n.quickCommand(ctx, "sh", "-c", `if [ "$(readlink -f -- "$1")" = "$(readlink -f -- "$2")" ]; then echo same; fi`, "sh", directory, n.Directory)
	if err == nil && strings.TrimSpace(out) != "same" {
		err = fmt.Errorf("node %s: the server at its url has the directory %s, not %s", n.Name, directory, n.Directory)
	}
	if err != nil {
		return err
	}
	found, err := n.quickCommand(ctx, "head", "-n", "3", path.Join(n.Directory, "postmaster.pid"))
	if err == nil && strings.TrimSpace(found) != process {
		err = anotherServer(n)
	}
	return err
}

// processText selects the process ID, directory and start time of a server: the first three lines of its
// postmaster.pid.
const processText = `array_to_string((string_to_array(pg_read_file('postmaster.pid'), E'\n'))[1:3], E'\n')`

// processOf returns a server's process, as processText selects it.
func processOf(ctx context.Context, n *Node) (string, error) {
	return value[string](ctx, n, "SELECT "+processText)
}

// systemOf returns the system identifier, which only servers of the same cell share.
func systemOf(ctx context.Context, n *Node) (string, error) {
	return value[string](ctx, n, "SELECT system_identifier::text FROM pg_control_system()")
}

// receives reports whether a standby receives WAL.
func (n *Node) receives(ctx context.Context) (bool, error) {
	return value[bool](ctx, n, "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")
}

// slotName matches valid names of replication slots.
var slotName = regexp.MustCompile("^[a-z0-9_]{1,63}$")

// slot returns the name of the slot that keeps WAL for the node at the server that it follows.
func (n *Node) slot() string { return "cinch_" + strings.ReplaceAll(strings.ToLower(n.Name), "-", "_") }

// makeSlot makes the slot for a follower of this node, unless it exists.
func (n *Node) makeSlot(ctx context.Context, follower *Node) error {
	return n.exec(ctx, "SELECT pg_create_physical_replication_slot('"+follower.slot()+"', true) WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '"+follower.slot()+"')")
}

// errSlotUsed means that a follower still uses a slot.
var errSlotUsed = errors.New("the slot is in use")

// dropSlot drops a slot, if it exists. A server that has just been stopped counts as its user for a moment.
func (n *Node) dropSlot(ctx context.Context, name string) error {
	if !slotName.MatchString(name) {
		return fmt.Errorf("node %s: slot %q", n.Name, name)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return n.ask(ctx, func(c *pgx.Conn) error {
		for {
			var used bool
			err := c.QueryRow(ctx, `SELECT active, CASE WHEN NOT active THEN pg_drop_replication_slot(slot_name) END FROM pg_replication_slots WHERE slot_name = $1`, name).Scan(&used, nil)
			switch {
			case errors.Is(err, pgx.ErrNoRows) || err == nil && !used:
				return nil
			case err != nil:
				return err
			}
			if pause(ctx) != nil {
				return fmt.Errorf("%w, and keeps WAL: %s; when it is no longer needed, drop it: SELECT pg_drop_replication_slot('%s')", errSlotUsed, name, name)
			}
		}
	})
}

// conninfo returns the primary_conninfo with which follower connects to this node.
func (n *Node) conninfo(follower *Node, more string) string {
	host, port, user := n.location()
	parts := []string{"host=" + conninfoValue(host), "port=" + conninfoValue(port), "application_name=" + conninfoValue(follower.slot())}
	if !strings.Contains(more, "user=") {
		parts = append(parts, "user="+conninfoValue(user))
	}
	return strings.Join(append(parts, more), " ")
}

// location returns what a node's URL has of these, in its parameters first. The host may be the directory of a socket.
func (n *Node) location() (host, port, user string) {
	u, err := url.Parse(n.URL)
	if err != nil {
		return "", "", "" // it has been parsed before
	}
	q := u.Query()
	return cmp.Or(q.Get("host"), u.Hostname()), cmp.Or(q.Get("port"), u.Port(), "5432"), cmp.Or(q.Get("user"), u.User.Username())
}

// server returns the address of a node's server as a gateway shows that of its upstream, without the scheme.
func (n *Node) server() string {
	host, port, _ := n.location()
	if strings.HasPrefix(host, "/") {
		return "unix:" + host + "/.s.PGSQL." + port
	}
	return net.JoinHostPort(host, port)
}

// conninfoValue quotes a value for libpq.
func conninfoValue(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// confLiteral quotes a text for postgresql.conf, where a backslash is an escape.
func confLiteral(v string) string { return literal(strings.ReplaceAll(v, `\`, `\\`)) }

// literal quotes a text for SQL.
func literal(v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" }
