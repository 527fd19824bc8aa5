package mongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Check compares the servers: their versions and data, and settings that make answers or data differ.
func (p *Protocol) Check(ctx context.Context, production, control, test *shadow.Target) ([]shadow.Finding, error) {
	var servers []*server
	for _, t := range []*shadow.Target{production, control, test} {
		s, err := ask(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		servers = append(servers, s)
	}
	return findings(servers[0], servers[1], servers[2]), nil
}

// Same compares the IDs of the server processes.
func (p *Protocol) Same(ctx context.Context, a, b *shadow.Target) bool {
	one, err := process(ctx, a)
	if err != nil || one.IsZero() {
		return false
	}
	other, err := process(ctx, b)
	return err == nil && one == other
}

func process(ctx context.Context, t *shadow.Target) (bson.ObjectID, error) {
	h, err := greet(ctx, t.Upstream)
	return h.Topology.Process, err
}

// report collects findings.
type report struct{ shadow.Findings }

func findings(production, control, test *server) []shadow.Finding {
	var r report
	if !production.known {
		r.Note("production requires a login: put it into its URI to compare production here (it is not used for clients)")
	}
	for _, s := range []*server{production, control, test} {
		r.describe(s)
	}
	for _, s := range []*server{control, test} {
		r.alone(s, production)
		if s.Topology.Process == production.Topology.Process && !s.Topology.Process.IsZero() {
			r.Problem("use a separate server for each target", "%s is production itself", s.name)
		}
		if production.known {
			r.checkVersion(s, production)
			r.data(s, production)
		}
	}
	r.targets(control, test)
	return r.Findings
}

// describe reports a server's version and data.
func (r *report) describe(s *server) {
	if !s.known {
		return
	}
	documents, data, files := s.totals()
	line := fmt.Sprintf("%s: MongoDB %s", s.name, s.version)
	if s.compatible != "" {
		line += ", compatible with " + s.compatible
	}
	line += ", " + cmp.Or(s.engine, "unknown storage engine")
	if s.Set != "" {
		line += fmt.Sprintf(", replica set %s of %d", s.Set, len(s.Hosts))
	}
	line += fmt.Sprintf(", %d collections with %d documents", len(s.collections), documents)
	if files > 0 {
		line += fmt.Sprintf(", %d MiB in files of %d MiB (%s)", data>>20, files>>20, s.compressors())
	}
	r.Note("%s", line)
	if s.isMongos() {
		r.Problem("mirror a single server, or one primary", "%s is a mongos", s.name)
	} else if s.older(5, 1) {
		r.Problem("mirror servers from 5.1 on: older ones use other messages", "%s has MongoDB %s", s.name, s.version)
	}
}

// older reports whether a server's version comes before another.
func (s *server) older(than ...int) bool {
	return len(s.numbers) >= len(than) && slices.Compare(s.numbers[:len(than)], than) < 0
}

// fullDisk is the share from which on a disk is too full for a run that writes.
const fullDisk = 0.95

// alone reports problems of a single target.
func (r *report) alone(s, production *server) {
	if !s.Writable {
		r.Problem("name the primary, or a standalone server", "%s is a secondary, which refuses writes", s.name)
	}
	if s.Set == "" && production.Set != "" {
		r.Note("%s is not a replica set: it gets a transaction's statements without the transaction, and none of aborted ones", s.name)
	}
	if len(s.Hosts) > 1 {
		r.Note("%s has %d other members: its writes with the write concern majority wait for them", s.name, len(s.Hosts)-1)
	}
	if len(s.profiled) > 0 {
		r.Note("%s profiles %s, which slows it down", s.name, strings.Join(s.profiled, ", "))
	}
	switch {
	case s.fullest == 0:
		r.Note("%s: its free disk space could not be checked: dbStats does not show it", s.name)
	case s.fullest > fullDisk:
		r.Problem("free disk space: the run writes there", "the disk of %s is %.0f %% full", s.name, 100*s.fullest)
	}
	r.allowed(s, production)
}

// needed lists the actions that clients' commands need, besides those that the check uses.
var needed = []string{"find", "insert", "update", "remove", "createCollection", "dropCollection", "createIndex", "dropIndex"}

// allowed reports rights that a target's user lacks.
func (r *report) allowed(s, production *server) {
	if s.user == "" {
		return
	}
	databases := map[string]bool{scratchDB: true}
	for _, of := range []*server{s, production} {
		for namespace := range of.collections {
			db, _, _ := strings.Cut(namespace, ".")
			databases[db] = true
		}
	}
	for _, db := range slices.Sorted(maps.Keys(databases)) {
		for _, action := range needed {
			if !s.may(db, action) {
				r.Problem("give it the roles readWriteAnyDatabase and dbAdminAnyDatabase", "%s: the user %s may not %s in %s", s.name, s.user, action, db)
				return
			}
		}
	}
}

func (s *server) may(db, action string) bool {
	return slices.ContainsFunc(s.rights, func(r right) bool {
		on := r.Resource.Any || r.Resource.Collection == "" && (r.Resource.DB == "" || r.Resource.DB == db)
		return on && slices.Contains(r.Actions, action)
	})
}

// checkVersion reports a target that is older than production.
func (r *report) checkVersion(s, production *server) {
	if len(production.numbers) > 1 && s.older(production.numbers[:2]...) {
		r.Problem("give targets production's version or a newer one", "%s has MongoDB %s, production %s: it may lack features that clients use", s.name, s.version, production.version)
	}
}

// maxNamed limits the collections in a line.
const maxNamed = 5

// data reports collections that a target lacks, or that differ from production's.
func (r *report) data(s, production *server) {
	var missing, other, fewer []string
	for _, namespace := range slices.Sorted(maps.Keys(production.collections)) {
		want := production.collections[namespace]
		got, ok := s.collections[namespace]
		switch {
		case !ok:
			missing = append(missing, namespace)
		case got.indexes != want.indexes || got.options != want.options:
			other = append(other, namespace)
		case different(got.documents, want.documents):
			fewer = append(fewer, fmt.Sprintf("%s (%d, %d)", namespace, got.documents, want.documents))
		}
	}
	const restore = "restore production's data to both targets shortly before the run"
	if len(missing) > 0 {
		r.Problem(restore, "%s lacks collections: %s", s.name, named(missing))
	}
	if len(other) > 0 {
		r.Problem("create the same indexes and options as in production", "%s has different indexes or options than production: %s", s.name, named(other))
	}
	if len(fewer) > 0 {
		r.Problem(restore, "%s has a different number of documents than production: %s", s.name, named(fewer))
	}
}

func named(all []string) string {
	if len(all) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
	}
	return strings.Join(all, ", ")
}

// different reports whether numbers of documents differ by more than clients change during a restore.
func different(a, b int64) bool {
	d := a - b
	return max(d, -d) > max(a, b)/100+100
}

// targets reports differences between the targets.
func (r *report) targets(control, test *server) {
	if control.Topology.Process == test.Topology.Process && !control.Topology.Process.IsZero() {
		r.Problem("use a separate server for each target", "control and test are the same server")
	}
	if (control.Set == "") != (test.Set == "") {
		r.Note("only one target is a replica set: both get transactions' statements without the transaction, and only one writes an oplog")
	}
	var other, counts, expire []string
	for _, namespace := range slices.Sorted(maps.Keys(control.collections)) {
		a := control.collections[namespace]
		b, ok := test.collections[namespace]
		switch {
		case !ok:
			other = append(other, namespace)
		case a.options != b.options || a.indexes != b.indexes:
			other = append(other, namespace)
		case a.documents != b.documents:
			counts = append(counts, fmt.Sprintf("%s (%d, %d)", namespace, a.documents, b.documents))
		}
		if a.expires {
			expire = append(expire, namespace)
		}
	}
	if len(other) > 0 {
		r.Problem("both targets need the same collections, indexes and validators, because answers depend on them", "collections of the targets differ: %s", named(other))
	}
	if len(counts) > 0 {
		r.Problem("restore both targets from the same backup", "the targets have different numbers of documents: %s", named(counts))
	}
	if len(expire) > 0 {
		r.Note("documents expire in these collections, where differences do not count: %s", named(expire))
	}
	for _, line := range settingsThatDiffer(control.settings, test.settings) {
		r.Note("the targets' settings differ: %s", line)
	}
}

// ownSettings differ between any two servers, without effect.
var ownSettings = []string{
	"net.port", "net.bindIp", "storage.dbPath", "systemLog.path", "processManagement.pidFilePath", "net.unixDomainSocket.pathPrefix", "replication.replSet",
	"replication.replSetName", "config", "diagnosticDataCollectionDirectoryPath", "$clusterTime", "operationTime", "security.keyFile", "ok",
}

func settingsThatDiffer(control, test map[string]string) (out []string) {
	keys := maps.Clone(control)
	maps.Copy(keys, test)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if a, b := control[k], test[k]; a != b && !slices.Contains(ownSettings, k) {
			out = append(out, fmt.Sprintf("%s is %q at control, %q at test", k, a, b))
		}
	}
	return out
}

var errMongos = errors.New("it is a mongos: mirror a single server, or one primary")

// Fit fails if a server is known to be unsuited for its role. New has checked the targets' logins, and that
// they accept writes.
func (p *Protocol) Fit(ctx context.Context, production, control, test *shadow.Target) error {
	for _, t := range []*shadow.Target{production, control, test} {
		if t.Upstream.Address == "" {
			continue
		}
		h, err := greet(ctx, t.Upstream)
		switch {
		case err != nil && t != production: // production may come back
			return fmt.Errorf("%s: %w", t, err)
		case err == nil && h.isMongos():
			return fmt.Errorf("%s: %w", t, errMongos)
		}
	}
	return nil
}
