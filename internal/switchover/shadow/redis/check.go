package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Check compares the servers: their versions and data, and settings that make answers or data differ.
func (p *Protocol) Check(ctx context.Context, production, control, test *shadow.Target) ([]shadow.Finding, error) {
	var servers []server
	for _, t := range []*shadow.Target{production, control, test} {
		s, err := queryServer(ctx, t)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return findings(servers[0], servers[1], servers[2]), nil
}

// Same compares the servers' run IDs, if both allow INFO.
func (p *Protocol) Same(ctx context.Context, a, b *shadow.Target) bool {
	one, err := queryServer(ctx, a)
	if err != nil {
		return false
	}
	other, err := queryServer(ctx, b)
	return err == nil && one.sameAs(other)
}

// server holds what a server reports about itself.
type server struct {
	name   string
	known  bool // INFO was allowed: production may require a login that the mirror does not have
	info   map[string]string
	config map[string]string
	keys   int64
}

func queryServer(ctx context.Context, t *shadow.Target) (server, error) {
	s := server{name: t.Name}
	rdb := client(t.Upstream)
	defer rdb.Close()
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		if t.Name == "production" && isRefusal(err) {
			return s, nil
		}
		return s, fmt.Errorf("%s: INFO: %w", t, err)
	}
	s.known, s.info = true, parseInfo(text)
	s.keys = countKeys(s.info, "keys=")
	s.config, _ = rdb.ConfigGet(ctx, "*").Result() // managed servers refuse it
	return s, nil
}

// isDenied reports whether a user lacks a right.
func isDenied(err error) bool {
	var refused goredis.Error
	return errors.As(err, &refused) && goredis.HasErrorPrefix(refused, "NOPERM")
}

// isRefusal reports whether err is an error reply of the server, not a failed connection.
func isRefusal(err error) bool {
	_, ok := err.(goredis.Error)
	return ok
}

// parseInfo parses the reply to INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			info[k] = v
		}
	}
	return info
}

// countKeys adds up a field of "db0:keys=12,expires=3,…".
func countKeys(info map[string]string, name string) (n int64) {
	for k, v := range info {
		if !strings.HasPrefix(k, "db") {
			continue
		}
		for field := range strings.SplitSeq(v, ",") {
			if count, ok := strings.CutPrefix(field, name); ok {
				keys, _ := strconv.ParseInt(count, 10, 64)
				n += keys
			}
		}
	}
	return n
}

func findings(production, control, test server) []shadow.Finding {
	var found shadow.Findings
	if !production.known {
		found.Note("production requires a login: put it into its URL to compare production here (it is not used for clients)")
	}
	for _, s := range []server{production, control, test} {
		if s.known {
			found.Note("%s: Redis %s, %d keys, %s in memory, %s operations a second", s.name, version(s), s.keys, s.info["used_memory_human"], s.info["instantaneous_ops_per_sec"])
		}
	}
	for _, s := range []server{control, test} {
		s.checkTarget(found.Problem)
		if production.known && s.sameAs(production) {
			found.Problem("use a separate server for each target", "%s is production itself", s.name)
		}
		if production.known && countsDiffer(s.keys, production.keys) {
			found.Problem("restore production's data to both targets shortly before the run", "%s has %d keys, production %d", s.name, s.keys, production.keys)
		}
	}
	if control.sameAs(test) {
		found.Problem("use a separate server for each target", "control and test are the same server")
	}
	for _, line := range settingDifferences(control.config, test.config) {
		found.Note("the targets' settings differ: %s", line)
	}
	return found
}

// sameAs reports whether two answers come from one server, as far as the servers show their run IDs.
func (s server) sameAs(other server) bool {
	return s.info["run_id"] != "" && s.info["run_id"] == other.info["run_id"]
}

// checkTarget reports problems of a single target.
func (s server) checkTarget(problem func(hint, format string, args ...any)) {
	if s.info["role"] == "slave" {
		problem("promote it: REPLICAOF NO ONE", "%s is a replica, which refuses writes", s.name)
	}
	if s.info["cluster_enabled"] == "1" {
		problem("mirror a single server", "%s is a node of a cluster", s.name)
	}
	if policy := s.info["maxmemory_policy"]; s.info["maxmemory"] != "0" && policy != "noeviction" {
		problem("set maxmemory-policy noeviction, with room for the data", "%s evicts keys (%s), and each server evicts different ones", s.name, policy)
	}
}

// countsDiffer reports whether numbers of keys differ by more than clients change during a restore.
func countsDiffer(a, b int64) bool {
	d := a - b
	return max(d, -d) > max(a, b)/100+100
}

func version(s server) string {
	if v := s.info["valkey_version"]; v != "" {
		return v + " (Valkey)"
	}
	return s.info["redis_version"]
}

// ignoredSettings holds settings that differ between any two servers, without effect.
var ignoredSettings = []string{"port", "bind", "dir", "logfile", "pidfile", "unixsocket", "replica-announce-ip", "slave-announce-ip", "requirepass", "masterauth", "tls-port", "dbfilename", "aclfile"}

func settingDifferences(control, test map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(control)) {
		if v, ok := test[k]; ok && v != control[k] && !slices.Contains(ignoredSettings, k) {
			out = append(out, fmt.Sprintf("%s is %q at control, %q at test", k, control[k], v))
		}
	}
	return out
}
