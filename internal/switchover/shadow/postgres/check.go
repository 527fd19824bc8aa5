package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// check examines the servers and returns what would affect a run.
func check(ctx context.Context, cs *catalogs, targets ...*shadow.Target) (findings, error) {
	var servers []*server
	for _, t := range targets {
		s, err := survey(ctx, t)
		if err == nil && !s.known && t.Name != "production" {
			err = fmt.Errorf("%s: %s", t, s.why)
		}
		if err != nil {
			return findings{}, err
		}
		servers = append(servers, s)
	}
	found := findings{shadow.Findings{}}
	if cs != nil {
		found.restrict(cs.only, servers)
	}
	found.checkServers(servers[0], servers[1], servers[2])
	for _, t := range targets[1:] {
		found.checkConnection(ctx, t)
	}
	if cs != nil {
		found.checkNondeterminism(cs, servers[1])
	}
	return found, nil
}

// findings collects what a check finds.
type findings struct{ shadow.Findings }

// restrict restricts a check to the mirrored databases, and reports those that a server lacks.
func (f *findings) restrict(only subset, servers []*server) {
	for _, at := range servers {
		for name := range only {
			if at.known && at.databases[name] == nil {
				f.Problem("name databases that production and both targets have", "--only-database: %s has no database %s", at.name, name)
			}
		}
		maps.DeleteFunc(at.databases, func(name string, _ *database) bool { return only.admits(name) != nil })
	}
}

func (f *findings) checkServers(production, control, test *server) {
	if !production.known {
		f.Note("production refuses the check's login (%s): put a user into its URL to compare production here (it is not used for clients)", production.why)
	}
	for _, s := range []*server{production, control, test} {
		if s.known {
			f.Note("%s: PostgreSQL %s, %d databases, %d connections of %s", s.name, s.version, len(s.databases), s.clients, s.settings["max_connections"])
		}
	}
	if control.process == test.process {
		f.Problem("use a separate server for each target", "control and test are the same server")
	}
	for _, t := range []*server{control, test} {
		f.checkTarget(production, t)
	}
	if control.major != test.major {
		f.Note("control has PostgreSQL %d, test %d: answers and plans may differ for that reason", control.major, test.major)
	}
	of := production
	if !of.known {
		of = control
	}
	for _, t := range []*server{control, test} {
		if t != of {
			f.checkDatabases(of, t)
		}
	}
	for _, d := range settingDifferences(control, test, affectsAnswers) {
		f.Problem("set it to the same value on both targets, or answers will differ", "%s", d)
	}
	for _, d := range settingDifferences(control, test, func(name string) bool { return !affectsAnswers(name) && !isServerSpecific(name) }) {
		f.Note("different setting, which becomes part of the verdict: %s", d)
	}
}

// checkTarget checks one of the two targets, apart from its data.
func (f *findings) checkTarget(production, t *server) {
	if t.isStandby {
		f.Problem("promote it: pg_ctl promote", "%s is a standby, which refuses writes", t.name)
	}
	if t.settings["default_transaction_read_only"] == "on" {
		f.Problem("set it to off", "%s refuses writes: default_transaction_read_only is on", t.name)
	}
	if names := t.settings["synchronous_standby_names"]; names != "" {
		f.Problem("set it to ''", "%s waits for standbys at each commit: synchronous_standby_names is %q", t.name, names)
	}
	if t.prepared > 0 {
		f.Problem("roll them back: they hold locks", "%s has %d prepared transactions, from its backup or from an earlier run", t.name, t.prepared)
	}
	if !t.seesActivity {
		f.Problem("GRANT pg_read_all_stats", "the user of %s may not see what other connections wait for, so blocked statements look like slow ones", t.name)
	}
	if !production.known {
		return
	}
	if t.process == production.process {
		f.Problem("use a separate server for each target", "%s is production itself", t.name)
		return
	}
	if t.major != production.major {
		f.Problem("restore the same version, unless the version is what you want to judge", "%s has PostgreSQL %d, production %d: statements may be refused and answers differ", t.name, t.major, production.major)
	}
	if most := t.number("max_connections"); most < production.clients+10 {
		f.Problem("raise max_connections", "%s allows %d connections, production has %d now", t.name, most, production.clients)
	}
	command := t.settings["archive_command"]
	if t.settings["archive_mode"] != "off" && command != "" && command == production.settings["archive_command"] {
		f.Problem("set archive_mode = off before it damages production's archive", "%s archives its WAL to production's archive: %s", t.name, command)
	}
	for _, d := range settingDifferences(production, t, affectsAnswers) {
		f.Note("different setting in production: %s", d)
	}
}

// checkDatabases compares the databases of a target with those of another server.
func (f *findings) checkDatabases(of, t *server) {
	for _, name := range slices.Sorted(maps.Keys(of.databases)) {
		want, has := of.databases[name], t.databases[name]
		switch {
		case has == nil:
			f.Problem("restore it", "%s has no database %s", t.name, name)
		case want.closed != "" || has.closed != "":
			f.Note("database %s was not checked: %s", name, want.closed+has.closed)
		default:
			f.checkDatabase(of.name, t.name, name, want, has)
		}
	}
}

// checkForeignAccess reports how statements at a target reach other servers, and languages whose functions may.
func (f *findings) checkForeignAccess(ctx context.Context, t *shadow.Target, only subset, allowed bool) error {
	all, err := findForeignAccess(ctx, t, only)
	if err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	for _, r := range all {
		switch {
		case len(r.ways) > 0 && allowed:
			f.Note("%s: %s; allowed by --allow-foreign-servers", t.Name, &r)
		case len(r.ways) > 0:
			f.Problem(reachHint, "%s: %s", t.Name, &r)
		}
		if len(r.unknown) > 0 {
			f.Note("%s: functions of database %s may reach other servers, because their language is untrusted: %s", t.Name, r.database, strings.Join(r.unknown, ", "))
		}
	}
	return nil
}

// maxListed limits how many tables of a database are named.
const maxListed = 10

func (f *findings) checkDatabase(of, at, name string, want, has *database) {
	if want.locale != has.locale {
		f.Problem("create it with the same locale: rows have another order", "database %s is %s at %s, %s at %s", name, want.locale, of, has.locale, at)
	}
	if want.actual != has.actual {
		f.Problem("use the same version of the C library or ICU: texts have another order", "collations of database %s have the version %q at %s, %q at %s", name, want.actual, of, has.actual, at)
	}
	if has.collation != "" && has.actual != "" && has.collation != has.actual {
		f.Problem("REINDEX DATABASE, then ALTER DATABASE ... REFRESH COLLATION VERSION", "indexes of database %s at %s were built with collation version %s, the machine has %s", name, at, has.collation, has.actual)
	}
	if has.subscribed {
		f.Problem("disable the subscription", "database %s at %s has a subscription that writes to it", name, at)
	}
	for _, extension := range slices.Sorted(maps.Keys(want.extensions)) {
		switch version := has.extensions[extension]; {
		case version == want.extensions[extension]:
		case version == "" && mayReach(extension):
			f.Note("database %s at %s does not have the extension %s, which reaches other servers: statements that use it fail there", name, at, extension)
		case version == "":
			f.Problem("install it", "database %s at %s has no extension %s", name, at, extension)
		default:
			f.Note("extension %s of database %s is %s at %s, %s at %s", extension, name, want.extensions[extension], of, version, at)
		}
	}
	var missing, other, fewer []string
	for _, table := range slices.Sorted(maps.Keys(want.tables)) {
		a, b := want.tables[table], has.tables[table]
		switch {
		case b == nil:
			missing = append(missing, table)
		case a.columns != b.columns:
			other = append(other, table)
		case rowsDiffer(a.rows, b.rows):
			fewer = append(fewer, fmt.Sprintf("%s (%.0f at %s, %.0f at %s)", table, a.rows, of, b.rows, at))
		}
	}
	f.listTables("restore them", missing, "database %s at %s lacks tables", name, at)
	f.listTables("restore them", other, "database %s at %s has different columns in the tables", name, at)
	f.listTables("restore the data, or run ANALYZE if these estimates are old", fewer, "database %s at %s has different numbers of rows in the tables", name, at)
}

func (f *findings) listTables(hint string, names []string, format string, args ...any) {
	if len(names) == 0 {
		return
	}
	list := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	f.Problem(hint, "%s: %s", fmt.Sprintf(format, args...), list)
}

// rowsDiffer reports whether two numbers of rows differ more than estimates and the time of a restore
// explain.
func rowsDiffer(a, b float64) bool {
	return a >= 0 && b >= 0 && math.Abs(a-b) > max(a, b)/10+1000
}

// checkNondeterminism lists the columns that the run will leave out, and triggers that may write
// nondeterministic values.
func (f *findings) checkNondeterminism(cs *catalogs, control *server) {
	for _, name := range slices.Sorted(maps.Keys(control.databases)) {
		if control.databases[name].closed != "" {
			continue
		}
		left, notes := cs.of(name).allExcluded()
		if n := len(left); n > 0 {
			f.Note("database %s: %d columns differ by nature and are left out: %s", name, n, strings.Join(left[:min(n, maxListed)], "; "))
		}
		for _, note := range notes {
			f.Note("database %s: %s", name, note)
		}
	}
}

// minFreeShare is the share of free space on a filesystem below which the check reports a problem.
const minFreeShare = 0.1

// checkConnection checks what needs a connection to a target of its own.
func (f *findings) checkConnection(ctx context.Context, t *shadow.Target) {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		f.Note("%s: its free disk space, and whether it is behind a pool, could not be checked: %v", t.Name, err)
		return
	}
	defer c.Close(context.WithoutCancel(ctx))
	f.checkDisk(ctx, t, c)
	f.checkPool(ctx, t, c)
}

// checkDisk checks the free disk space of a target that runs on this machine.
func (f *findings) checkDisk(ctx context.Context, t *shadow.Target, c *pgconn.PgConn) {
	const unknown = "%s: its free disk space could not be checked: %v"
	row, err := queryRow(ctx, c, filesQuery)
	if err != nil {
		f.Note(unknown, t.Name, err)
		return
	}
	if _, err := localServer(row[0], row[1], row[2]); err != nil {
		f.Note("%s: its free disk space is not visible on this machine", t.Name)
		return
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(row[0], &fs); err != nil {
		f.Note(unknown, t.Name, err)
		return
	}
	free := float64(fs.Bavail) / float64(max(fs.Blocks, 1))
	if free < minFreeShare {
		f.Problem("free disk space", "%s has %.1f %% of its disk free", t.Name, 100*free)
		return
	}
	f.Note("%s has %.0f %% of its disk free", t.Name, 100*free)
}

// checkPool reports a connection pool in front of a target.
func (f *findings) checkPool(ctx context.Context, t *shadow.Target, c *pgconn.PgConn) {
	p := &pool{target: t}
	pid, err := p.process(ctx, c.PID(), func() (uint32, error) { return backend(ctx, c) })
	switch {
	case errors.Is(err, errShared):
		f.Problem("give its own address, or use pool_mode = session", "%s is behind a pool in transaction mode: it would be unknown what statements wait for", t.Name)
	case err != nil:
		f.Note("%s: whether it is behind a pool could not be checked: %v", t.Name, err)
	case pid != c.PID():
		f.Note("%s is behind a pool, whose delay is part of its latencies", t.Name)
	}
}
