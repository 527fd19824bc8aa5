package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// A target that was restored from production's backup has production's foreign servers and their logins too.
// Writes through them would be carried out at the far end by production and again by each target.

// foreignAccess lists how statements in a database of a target reach other servers.
type foreignAccess struct {
	database string
	ways     []string // foreign servers, and extensions that connect themselves
	unknown  []string // languages whose functions may do anything
}

// reachedQuery lists the databases that clients may use. Templates are left out: a pool would keep the
// connection, and then no database could be created from them.
const reachedQuery = "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"

// reachQuery leaves out files, and servers without a user mapping where the wrapper needs one. pg_cron and pg_net count
// only if they are in shared_preload_libraries: processes that these libraries start with the server run their jobs and
// requests.
const reachQuery = `SELECT 'foreign server ' || s.srvname || ' (' || concat_ws(', ', w.fdwname, (SELECT string_agg(o, ', ') FROM unnest(s.srvoptions) AS o
		WHERE split_part(o, '=', 1) IN ('host', 'hostaddr', 'port', 'dbname', 'service', 'servername', 'address'))) || ')'
	FROM pg_catalog.pg_foreign_server AS s JOIN pg_catalog.pg_foreign_data_wrapper AS w ON w.oid = s.srvfdw LEFT JOIN pg_catalog.pg_proc AS h ON h.oid = w.fdwhandler
	WHERE CASE h.proname WHEN 'postgres_fdw_handler' THEN EXISTS (SELECT FROM pg_catalog.pg_user_mappings AS m WHERE m.srvid = s.oid)
		WHEN 'file_fdw_handler' THEN EXISTS (SELECT FROM pg_catalog.pg_foreign_table AS f, unnest(f.ftoptions) AS o WHERE f.ftserver = s.oid AND o LIKE 'program=%')
		ELSE true END
	UNION ALL SELECT 'extension ' || extname FROM pg_catalog.pg_extension WHERE extname = ANY ('{` + reachingExtensions + `}')
		OR extname IN ('pg_cron', 'pg_net') AND position(extname IN coalesce((SELECT setting FROM pg_catalog.pg_settings WHERE name = 'shared_preload_libraries'), extname)) > 0
	ORDER BY 1;
	SELECT lanname FROM pg_catalog.pg_language WHERE lanispl AND NOT lanpltrusted ORDER BY 1`

// reachingExtensions lists extensions that connect to other servers without a foreign server.
const reachingExtensions = "dblink,http,plproxy,pg_curl,omni_httpc,amqp,aws_s3,aws_lambda,azure_storage,citus,pglogical,spock"

// mayReach reports whether an extension reaches other servers, so that a target should lack it.
func mayReach(extension string) bool {
	return strings.HasSuffix(extension, "_fdw") || strings.Contains(",pg_cron,pg_net,"+reachingExtensions+",", ","+extension+",")
}

// findForeignAccess returns the mirrored databases of a target that reach other servers. Databases that
// refuse the target's user are left out: clients' statements do not get there either.
func findForeignAccess(ctx context.Context, t *shadow.Target, only subset) (out []foreignAccess, err error) {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName})
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	results, err := c.Exec(ctx, reachedQuery).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range results[0].Rows {
		r := foreignAccess{database: string(row[0])}
		if only.admits(r.database) != nil {
			continue
		}
		if err := r.query(ctx, t); err != nil {
			return nil, fmt.Errorf("database %s: %w", r.database, err)
		}
		if len(r.ways)+len(r.unknown) > 0 {
			out = append(out, r)
		}
	}
	return out, nil
}

// shortages lists the SQLSTATE classes of errors that are not about permissions: resources, shutdown, system.
var shortages = []string{"53", "57", "58"}

func (r *foreignAccess) query(ctx context.Context, t *shadow.Target) error {
	c, err := connect(ctx, t.Upstream, map[string]string{"application_name": applicationName, "database": r.database})
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && !slices.ContainsFunc(shortages, func(class string) bool { return strings.HasPrefix(refused.Code, class) }):
		return nil
	case err != nil:
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	results, err := c.Exec(ctx, reachQuery).ReadAll()
	if err != nil {
		return err
	}
	for i, list := range []*[]string{&r.ways, &r.unknown} {
		for _, row := range results[i].Rows {
			*list = append(*list, string(row[0]))
		}
	}
	return nil
}

// String describes what is reached.
func (r *foreignAccess) String() string {
	return fmt.Sprintf("database %s reaches other servers (%s), where each target would repeat production's writes", r.database, strings.Join(r.ways, "; "))
}

const reachHint = "on the targets drop these servers or their user mappings, and these extensions; or point them at copies, and give --allow-foreign-servers"
