package rollout

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// Finding is a fact or a problem that the check of a node has found.
type Finding struct {
	Node    string `json:"node"`
	Problem bool   `json:"problem"` // the roll-out can't begin
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
}

// refuse reports the findings, and returns an error if there are problems.
func (p preparation) refuse(found []Finding, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheck, err)
	}
	var problems []error
	for _, f := range found {
		if f.Problem {
			problems = append(problems, terminal.WithHint(errors.New(f.Text), "%s", f.Hint))
		} else {
			p.log("%s", f.Text)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrCheck, errors.Join(problems...))
	}
	return nil
}

// settle runs CHECKPOINT, so that the size predicted from the files is right: a base backup begins with a
// checkpoint, too. It ignores errors: find reports them.
func (t *task) settle(ctx context.Context) {
	_ = t.primary.exec(ctx, "CHECKPOINT")
	if t.oldNode != t.primary {
		_ = t.oldNode.exec(ctx, "CHECKPOINT")
	}
}

// findings collects the findings of one node.
type findings struct {
	node string
	list []Finding
}

func (f *findings) say(format string, args ...any) {
	f.list = append(f.list, Finding{Node: f.node, Text: fmt.Sprintf(format, args...)})
}

func (f *findings) problem(hint, format string, args ...any) {
	f.list = append(f.list, Finding{Node: f.node, Problem: true, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (t *task) find(ctx context.Context) ([]Finding, error) {
	f := &findings{node: t.oldNode.Name}
	primary := t.primary
	if standby, err := primary.inRecovery(ctx); err != nil {
		return nil, err
	} else if standby {
		f.problem("make it the primary again, or abort and begin again with another cell file", "%s is a standby now: the primary was changed by other means", primary.Name)
		return f.list, nil
	}
	err := primary.ask(ctx, func(c *pgx.Conn) error {
		return errors.Join(findPrimary(ctx, c, f, t.newNode), findSlots(ctx, c, f))
	})
	if err != nil {
		return nil, err
	}
	if t.oldNode != primary {
		if err := t.findStandby(ctx, f); err != nil {
			return nil, err
		}
	}
	return f.list, t.findMachine(ctx, f)
}

// findPrimary checks settings and contents of the primary, from which the copy is made.
func findPrimary(ctx context.Context, c *pgx.Conn, f *findings, newNode *Node) error {
	settings := map[string]string{}
	rows, err := c.Query(ctx, "SELECT name, setting FROM pg_settings")
	if err != nil {
		return err
	}
	var name, setting string
	if _, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error { settings[name] = setting; return nil }); err != nil {
		return err
	}
	f.say("PostgreSQL %s, checksums of blocks %s, archive_mode %s, wal_keep_size %s MB", settings["server_version"], settings["data_checksums"], settings["archive_mode"], settings["wal_keep_size"])
	if settings["wal_level"] == "minimal" {
		f.problem("set wal_level = replica, and restart the primary", "wal_level is minimal: no standby can follow the primary")
	}
	if settings["hot_standby"] == "off" {
		f.problem("set hot_standby = on", "hot_standby is off: a new node does not answer queries before it is the primary")
	}
	if v, _ := strconv.Atoi(settings["server_version_num"]); v < 150000 {
		f.problem("upgrade first", "PostgreSQL %s is not supported: 15 or newer is needed", settings["server_version"])
	}
	if settings["synchronous_standby_names"] != "" && newNode.Patroni == nil {
		f.say("synchronous_standby_names is %q: the new node is called %s there", settings["synchronous_standby_names"], newNode.slot())
	}
	if file, dir := settings["config_file"], settings["data_directory"]; !strings.HasPrefix(file, strings.TrimRight(dir, "/")+"/") && len(newNode.Start) == 0 {
		f.problem("copy it to the new machine, and set start: to a command that starts the server with it", "the configuration is in %s, outside the data directory: a base backup does not have it", file)
	}
	if err := findEnds(ctx, c, f); err != nil {
		return err
	}
	return findContents(ctx, c, f, newNode)
}

// findEnds looks for settings that a primary ignores but that make a standby end its recovery by itself. A
// restore to a point in time leaves such settings behind. With them the old primary, and each copy of it, would
// become a primary when it is started.
func findEnds(ctx context.Context, c *pgx.Conn, f *findings) error {
	var names string
	err := c.QueryRow(ctx, `SELECT coalesce(string_agg(DISTINCT name, ', ' ORDER BY name), '') FROM
		(SELECT name, setting FROM pg_settings UNION ALL SELECT name, setting FROM pg_file_settings) AS s
		WHERE name IN ('recovery_target', 'recovery_target_lsn', 'recovery_target_name', 'recovery_target_time', 'recovery_target_xid', 'promote_trigger_file') AND setting <> ''
		OR name = 'recovery_target_timeline' AND setting <> 'latest'`).Scan(&names)
	if err == nil && names != "" {
		f.problem("remove them from the configuration: they are left over from a restore, and a primary does not need them", "%s would make a standby end its recovery", names)
	}
	return err
}

func findContents(ctx context.Context, c *pgx.Conn, f *findings, newNode *Node) error {
	var bytes int64
	var extensions string
	var prepared, unlogged int
	err := c.QueryRow(ctx, `SELECT (SELECT sum(pg_database_size(oid))::bigint FROM pg_database WHERE datallowconn),
		(SELECT coalesce(string_agg(extname || ' ' || extversion, ', ' ORDER BY 1), 'none') FROM pg_extension),
		(SELECT count(*) FROM pg_prepared_xacts), (SELECT count(*) FROM pg_class WHERE relpersistence = 'u')`).Scan(&bytes, &extensions, &prepared, &unlogged)
	if err != nil {
		return err
	}
	f.say("%s of data; extensions: %s", terminal.Size(bytes), extensions)
	if prepared > 0 {
		f.say("%d transactions are prepared: they remain prepared", prepared)
	}
	if unlogged > 0 {
		f.say("%d unlogged relations will be empty", unlogged)
	}
	rows, _ := c.Query(ctx, "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE pg_tablespace_location(oid) <> ''")
	spaces, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, space := range spaces {
		if newNode.Tablespaces[space] == "" {
			f.problem("add tablespaces: {"+space+": new directory} to the replacement", "the tablespace in %s has no new directory", space)
		}
	}
	return err
}

// findSlots checks the replication slots and senders of the primary.
func findSlots(ctx context.Context, c *pgx.Conn, f *findings) error {
	var logical string
	var free, senders int
	err := c.QueryRow(ctx, `SELECT (SELECT coalesce(string_agg(slot_name, ', '), '') FROM pg_replication_slots WHERE slot_type = 'logical'),
		current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
		current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)`).Scan(&logical, &free, &senders)
	if err != nil {
		return err
	}
	if logical != "" {
		f.problem("drop the slots, and create their subscriptions again after the roll-out", "logical replication slots (%s) do not exist on a new primary", logical)
	}
	if free < 1 {
		f.problem("raise max_replication_slots", "no free replication slot")
	}
	if senders < 2 {
		f.problem("raise max_wal_senders", "%d replication connections are free, a base backup needs 2", senders)
	}
	return nil
}

// findUnknownFollowers reports followers that are not nodes. They are problems unless the cell's file names them,
// too.
func findUnknownFollowers(ctx context.Context, f *findings, n neighbours) error {
	for _, server := range n.servers() {
		list, err := n.unknownFollowers(ctx, server)
		if err != nil {
			return err
		}
		for _, one := range list {
			n.findUnknownFollower(f, server, one)
		}
	}
	return nil
}

func (c neighbours) findUnknownFollower(f *findings, server *Node, one unknownFollower) {
	switch {
	case one.ofCell:
		f.problem("make it follow the primary first", "%s serves %v: a node of the cell, which would lose its upstream when %s is stopped", server.Name, one, server.Name)
	case one.perhaps != "":
		f.say("%s serves %v: it may belong to %s, which does not answer", server.Name, one, one.perhaps)
	case c.cell.leavesBehind(one):
		f.say("%s serves %v: it is left behind when %s is stopped", server.Name, one, server.Name)
	default:
		f.problem("make it one of the nodes, stop or drop it, or set left_behind: ["+one.displayName()+"] in the cell's file, and make it follow the new primary yourself",
			"%s serves %v: not a node of the cell, and left behind when %s is stopped", server.Name, one, server.Name)
	}
}

// findStandby checks a standby before it is replaced.
func (t *task) findStandby(ctx context.Context, f *findings) error {
	receives, err := t.oldNode.receives(ctx)
	if err != nil {
		return err
	}
	standby, err := t.oldNode.inRecovery(ctx)
	switch {
	case err != nil:
		return err
	case !standby:
		f.problem("a cell has one primary: make one of them a standby, or stop it", "%s and %s are both primaries", t.primary.Name, t.oldNode.Name)
	case !receives:
		f.say("%s is not streaming now", t.oldNode.Name)
	}
	return nil
}

// findMachine checks the directories and programs of the node and of its replacement.
func (t *task) findMachine(ctx context.Context, f *findings) error {
	n, newNode := t.oldNode, t.newNode
	here, err := n.control(ctx)
	if err != nil {
		f.problem("set directory: to the data directory, and run: and bin: to how it is reached", "%s: %v", n.Name, err)
		return nil
	}
	system, err := systemOf(ctx, t.primary)
	if err != nil {
		return err
	}
	if running, err := n.running(ctx); err != nil {
		return err
	} else if !running {
		f.problem("set directory: to that of the server at url:", "%s: the server at its url answers, but no server runs in %s", n.Name, n.Directory)
	} else if err := n.checkServer(ctx); err != nil {
		f.problem("set directory: to that of the server at url:", "%v", err)
	}
	if here[controlSystem] != system {
		f.problem("set directory: to that of the server at url:", "%s: %s belongs to another cell", n.Name, n.Directory)
	}
	was, err := n.command(ctx, n.program("postgres"), "--version")
	if err != nil {
		return err
	}
	is, err := newNode.command(ctx, newNode.program("postgres"), "--version")
	const sameVersion = "install the same version there, or set bin: to its directory"
	if err != nil {
		f.problem(sameVersion, "%s has %s; asking %s failed: %v", n.Name, strings.TrimSpace(was), newNode.Name, err)
	} else if was != is {
		f.problem(sameVersion, "%s has %s, %s has %s", n.Name, strings.TrimSpace(was), newNode.Name, strings.TrimSpace(is))
	}
	missing, err := t.missingFiles(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		f.problem(fmt.Sprintf(librariesHint, n.Name), "the machine of %s lacks %s, which the cell uses", newNode.Name, strings.Join(missing, ", "))
	}
	return t.findRoom(ctx, f)
}

// findRoom reports the sizes of the old directory and, as predicted, of the new one, and compares them with
// the free space.
func (t *task) findRoom(ctx context.Context, f *findings) error {
	n, newNode := t.oldNode, t.newNode
	takes, err := n.diskUse(ctx, t.oldDirectories())
	if err != nil {
		return err
	}
	t.progress.Old = takes
	place, err := newNode.place(ctx)
	if err != nil {
		return err
	}
	f.say("%s takes %s; the filesystem of %s has %s free: %s", n.Directory, takes, newNode.Name, terminal.Size(place.free), place)
	predicted, err := t.predict(ctx, place)
	t.progress.Predicted = predicted
	if err != nil {
		f.say("the size of %s can't be predicted: %v", newNode.Name, err)
		if least := takes.Data / maxShrink; place.free < least {
			f.problem("cinch plan --disk predicts its size", "%s would not fit even if it became %d times smaller", n.Directory, maxShrink)
		}
		return context.Cause(ctx)
	}
	f.say("%s will take %s without WAL on %s, %+.0f %%", newNode.Name, terminal.Size(predicted.Bytes), predicted.Setting, 100*(share(predicted.Bytes, takes.Data)-1))
	if predicted.Bytes+takes.WAL > place.free {
		f.problem("free or add disk space there", "%s of data and %s of WAL do not fit", terminal.Size(predicted.Bytes), terminal.Size(takes.WAL))
	}
	return nil
}

// maxShrink is the largest factor by which compression may shrink a directory. It is used if there is no
// prediction: without space for even a directory that much smaller, the roll-out does not begin.
const maxShrink = 10

// findGateway checks whether the gateway accepts commands, and serves this cell: another one would move
// another cell's clients.
func findGateway(ctx context.Context, t through, f *findings, primary *Node) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s, err := t.gateway.Check(ctx)
	if err != nil {
		f.problem("set gateway: {admin, token_file, name} to those of the cinch serve --postgres that clients use", "the gateway at %s: %v", t.gateway.Admin, err)
		return
	}
	if s.Phase != control.Open && s.By != t.holder() {
		f.say("clients of the gateway %s are held by %q: they can't be held again until that ends", s.Gateway, s.By)
	}
	if !s.Remembers {
		f.problem("set state_file, and restart the gateway", "the gateway %s has no state_file, so it can't move its clients", s.Gateway)
	}
	leads := t.cell.Gateway.Upstream
	if leads == "" {
		leads = primary.server()
	}
	if !sameHost(ctx, address(s.Upstream), leads) {
		f.problem("set gateway: {admin} to this cell's gateway; if it is, and knows the primary by another name, set gateway: {upstream: host:port} to that",
			"clients of the gateway %s are served by %s, but %s is at %s", s.Gateway, s.Upstream, primary.Name, leads)
	}
	for _, session := range s.Sessions {
		if len(session.Reasons) > 0 && t.cell.Gateway.Unmovable != control.End {
			f.say("a session of %s (%s, %s) can't be moved now: %s", session.User, session.Client, session.Application, strings.Join(session.Reasons, ", "))
		}
	}
}

// address returns the host:port of an upstream as the gateway reports it.
func address(upstream string) string {
	if _, after, ok := strings.Cut(upstream, "://"); ok {
		return after
	}
	return upstream
}

// sameHost reports whether two host:port may lead to the same server. It looks the names up on this machine.
func sameHost(ctx context.Context, one, other string) bool {
	host, port, err := net.SplitHostPort(one)
	otherHost, otherPort, otherErr := net.SplitHostPort(other)
	if one == other || err != nil || otherErr != nil {
		return one == other
	}
	if port != otherPort {
		return false
	}
	ips, _ := net.DefaultResolver.LookupHost(ctx, host)
	others, _ := net.DefaultResolver.LookupHost(ctx, otherHost)
	return host == otherHost || slices.ContainsFunc(ips, func(ip string) bool { return slices.Contains(others, ip) })
}
