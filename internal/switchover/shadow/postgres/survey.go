package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// server holds what a server reports about itself before a run.
type server struct {
	name         string
	known        bool // it accepted the login: production may need one that the tool does not have
	why          string
	process      string // start time, which its copies do not share
	major        int
	version      string
	isStandby    bool
	prepared     int  // prepared transactions
	seesActivity bool // its user may see what other connections do
	clients      int  // connected clients
	settings     map[string]string
	databases    map[string]*database
}

// database is a database of a server.
type database struct {
	locale     string // encoding and collation
	collation  string // version with which its indexes were made
	actual     string // version on the machine
	extensions map[string]string
	tables     map[string]*table
	subscribed bool
	closed     string // why it can't be examined
}

// table is a table of a database.
type table struct {
	rows    float64 // estimate; -1: unknown
	columns string
}

const startQuery = "SELECT pg_postmaster_start_time()::timestamptz AT TIME ZONE 'UTC'"

const serverQuery = startQuery + `, current_setting('server_version_num')::int / 10000, current_setting('server_version'), pg_is_in_recovery(),
	(SELECT count(*) FROM pg_prepared_xacts), pg_has_role('pg_read_all_stats', 'USAGE'), (SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL)`

// Servers before 15 have no collation version of a database.
const databasesQuery = `SELECT datname, concat_ws(', ', pg_encoding_to_char(encoding), datcollate, datctype), %s FROM pg_database WHERE datallowconn AND NOT datistemplate`

const databaseQuery = `SELECT extname, extversion FROM pg_extension;
	SELECT n.nspname || '.' || c.relname, c.reltuples, (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'cinch_shadow');
	SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL`

// started returns the start time of a server.
func started(ctx context.Context, t *shadow.Target) (string, error) {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		return "", err
	}
	defer c.Close(context.WithoutCancel(ctx))
	results, err := c.Exec(ctx, startQuery).ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// survey examines a server. If it refuses the login, the result has known unset.
func survey(ctx context.Context, t *shadow.Target) (*server, error) {
	s := &server{name: t.Name, settings: map[string]string{}, databases: map[string]*database{}}
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code != "57P03" { // 57P03: it starts or stops
			s.why = refused.Message
			return s, nil
		}
		return s, fmt.Errorf("%s: %w", t, err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := s.query(ctx, c); err != nil {
		return s, fmt.Errorf("%s: %w", t, err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.databases)) {
		d := s.databases[name]
		if err := d.query(ctx, t, name); err != nil {
			d.closed = err.Error()
		}
	}
	return s, nil
}

func (s *server) query(ctx context.Context, c *pgconn.PgConn) error {
	results, err := c.Exec(ctx, serverQuery+"; SELECT name, setting FROM pg_settings").ReadAll()
	if err != nil {
		return err
	}
	row := results[0].Rows[0]
	s.known, s.process, s.version = true, string(row[0]), string(row[2])
	s.major, s.prepared, s.clients = int(number(row[1])), int(number(row[4])), int(number(row[6]))
	s.isStandby, s.seesActivity = row[3][0] == 't', row[5][0] == 't'
	for _, setting := range results[1].Rows {
		s.settings[string(setting[0])] = string(setting[1])
	}
	versions := "NULL, NULL"
	if s.major >= 15 {
		versions = "datcollversion, pg_database_collation_actual_version(oid)"
	}
	if results, err = c.Exec(ctx, fmt.Sprintf(databasesQuery, versions)).ReadAll(); err != nil {
		return err
	}
	for _, row := range results[0].Rows {
		s.databases[string(row[0])] = &database{locale: string(row[1]), collation: string(row[2]), actual: string(row[3])}
	}
	return nil
}

func (d *database) query(ctx context.Context, t *shadow.Target, name string) error {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName, "database": name})
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	results, err := c.Exec(ctx, databaseQuery).ReadAll()
	if err != nil {
		return err
	}
	d.extensions, d.tables = map[string]string{}, map[string]*table{}
	for _, row := range results[0].Rows {
		d.extensions[string(row[0])] = string(row[1])
	}
	for _, row := range results[1].Rows {
		rows, _ := strconv.ParseFloat(string(row[1]), 64)
		d.tables[string(row[0])] = &table{rows: rows, columns: string(row[2])}
	}
	d.subscribed = string(results[2].Rows[0][0]) != "0"
	return nil
}

// number returns a setting as a number, or 0 if it is none.
func (s *server) number(setting string) int {
	n, _ := strconv.Atoi(s.settings[setting])
	return n
}

// settingDifferences returns the settings that differ, in the order of their names, among those for which ok
// returns true.
func settingDifferences(a, b *server, ok func(string) bool) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(a.settings)) {
		here, there := a.settings[name], b.settings[name]
		if _, known := b.settings[name]; known && here != there && ok(name) {
			out = append(out, fmt.Sprintf("%s is %q at %s, %q at %s", name, here, a.name, there, b.name))
		}
	}
	return out
}

// isServerSpecific reports whether a setting describes the server itself and affects neither answers nor
// latencies.
func isServerSpecific(name string) bool {
	for _, prefix := range []string{"log_", "ssl_", "transaction_", "recovery_", "primary_", "in_hot_", "unix_socket_", "krb_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "application_name", "bonjour_name", "cluster_name", "config_file", "data_directory", "data_directory_mode", "event_source", "external_pid_file", "hba_file",
		"ident_file", "listen_addresses", "port", "restore_command", "server_version", "server_version_num", "session_authorization", "is_superuser", "seed":
		return true
	}
	return false
}

// affectsAnswers reports whether a setting may change answers unless clients set it themselves.
func affectsAnswers(name string) bool {
	switch strings.ToLower(name) {
	case "timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output", "search_path", "standard_conforming_strings", "default_transaction_isolation",
		"default_transaction_read_only", "client_encoding", "xmlbinary", "xmloption", "array_nulls", "backslash_quote", "transform_null_equals", "row_security",
		"default_text_search_config", "quote_all_identifiers", "lc_monetary", "lc_numeric", "lc_time", "statement_timeout", "lock_timeout",
		"idle_in_transaction_session_timeout", "idle_session_timeout":
		return true
	}
	return false
}
