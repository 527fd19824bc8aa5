package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/postgres"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Protocol implements PostgreSQL for the engine. Create it with New, and close it.
type Protocol struct {
	Opener
	functions  sql.Functions
	catalogs   *catalogs
	only       subset
	scratch    string                    // name of the table
	statements map[string]*sql.Statement // used only by the mirror's goroutine
	readers    map[*reader]bool          // connections that are logged in; used only by the mirror's goroutine

	mu     sync.Mutex
	probes map[string]*progressProbe // by target

	allowForeign bool
}

// Options holds the options of a run.
type Options struct {
	Ignore    []string // "schema.table.column": left out of the comparison
	Databases []string // databases to mirror; none: all

	AllowForeign bool // targets may reach other servers
}

// New reads the functions from the control, and finds out whether production's catalogs can be read.
func New(ctx context.Context, production, target endpoint.Upstream, o Options) (*Protocol, error) {
	ignored, err := parseColumns(o.Ignore)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, target, nil)
	if err != nil {
		return nil, terminal.WithHint(fmt.Errorf("control (%s): %w", target, err), hintReach)
	}
	defer c.Close(ctx)
	functions, err := loadFunctions(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("control (%s): %w", target, err)
	}
	cs := &catalogs{control: target, functions: functions, ignored: ignored, only: newSubset(o.Databases), all: map[string]*trackedCatalog{}}
	cs.probeProduction(ctx, production)
	return &Protocol{
		functions: functions, catalogs: cs, only: cs.only, scratch: "cinch_shadow.t" + strconv.FormatInt(time.Now().UnixNano(), 36),
		statements: map[string]*sql.Statement{}, readers: map[*reader]bool{}, probes: map[string]*progressProbe{},
		allowForeign: o.AllowForeign,
	}, nil
}

const hintReach = shadow.HintReach + ", and the right database"

// loadFunctions reads which functions may do more than read.
func loadFunctions(ctx context.Context, c *pgconn.PgConn) (sql.Functions, error) {
	rows, err := c.Exec(ctx, "SELECT proname, bool_or(provolatile = 'v') FROM pg_proc GROUP BY 1").ReadAll()
	if err != nil {
		return nil, err
	}
	out := sql.Functions{}
	for _, row := range rows[0].Rows {
		if out[string(row[0])] = sql.Stable; row[1][0] == 't' {
			out[string(row[0])] = sql.Volatile
		}
	}
	return out, nil
}

// maxStatements and maxStatementBytes limit the cache of examined texts: their number and the size of each.
const (
	maxStatements     = 2000
	maxStatementBytes = 16 << 10
)

// analyze returns the analysis of a text, and caches it unless the text is too long.
func (p *Protocol) analyze(text string) *sql.Statement {
	if s := p.statements[text]; s != nil {
		return s
	}
	s := sql.Analyze(text, p.functions)
	if len(text) <= maxStatementBytes {
		s.Text = text
		if len(p.statements) >= maxStatements {
			clear(p.statements)
		}
		p.statements[text] = s
	}
	return s
}

// Reader returns a reader for a new connection.
func (p *Protocol) Reader() shadow.Reader { return newReader(p) }

// Opener accepts clients and connects to production.
type Opener struct{}

// Open answers a client's requests for encryption.
func (Opener) Open(client net.Conn, config *tls.Config) (net.Conn, []byte, error) {
	return postgres.Accept(client, config)
}

// Reach connects to production. A login that is bound to production's certificate (SCRAM channel binding) succeeds if
// the client sees that certificate.
func (Opener) Reach(ctx context.Context, production endpoint.Upstream, client net.Conn, config *tls.Config) (net.Conn, error) {
	c, err := postgres.Dial(ctx, production, nil)
	if err != nil {
		return nil, err
	}
	return postgres.Unbound(c, postgres.NewBinding(client, c, config)), nil
}

// Dial returns a connection that is made at its first use: the first operation names the database.
func (p *Protocol) Dial(_ context.Context, t *shadow.Target) (shadow.Conn, error) {
	return &conn{target: t, probe: p.probe(t)}, nil
}

// Look returns what a target is doing with the last operation.
func (p *Protocol) Look(ctx context.Context, on, own shadow.Conn) shadow.Progress {
	c := on.(*conn)
	var pid uint32
	if own, ok := own.(*conn); ok {
		pid = own.pid.Load()
	}
	return c.probe.progress(ctx, c.pid.Load(), pid)
}

func (p *Protocol) probe(t *shadow.Target) *progressProbe {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.probes[t.Name]
	if l == nil || l.target != t {
		if l != nil {
			l.close()
		}
		l = &progressProbe{target: t, pool: pool{target: t}}
		p.probes[t.Name] = l
	}
	return l
}

// Notes lists the columns that were left out.
func (p *Protocol) Notes() []string { return p.catalogs.lines() }

// CheckData compares rows and checksums of all tables of the databases that clients used.
func (p *Protocol) CheckData(ctx context.Context, how shadow.DataCheck, servers ...*shadow.Target) ([]shadow.TableState, error) {
	return p.catalogs.checkData(ctx, how, servers)
}

// Check compares the servers: their versions, databases and data sizes, and settings that change answers or
// data.
func (p *Protocol) Check(ctx context.Context, production, control, test *shadow.Target) ([]shadow.Finding, error) {
	found, err := check(ctx, p.catalogs, production, control, test)
	for _, t := range []*shadow.Target{control, test} {
		if err == nil {
			err = found.checkForeignAccess(ctx, t, p.only, p.allowForeign)
		}
	}
	return found.Findings, err
}

// Fit returns an error if a target reaches other servers and that is not allowed.
func (p *Protocol) Fit(ctx context.Context, _, control, test *shadow.Target) error {
	if p.allowForeign {
		return nil
	}
	for _, t := range []*shadow.Target{control, test} {
		all, err := findForeignAccess(ctx, t, p.only)
		if err != nil {
			return terminal.WithHint(fmt.Errorf("%s: %w", t, err), hintReach)
		}
		for _, r := range all {
			if len(r.ways) > 0 {
				return terminal.WithHint(fmt.Errorf("%s: %s", t, &r), reachHint)
			}
		}
	}
	return nil
}

// Same reports whether a and b are one server, by their start times. It returns false if either refuses the
// query. Copies of a server share its system identifier.
func (p *Protocol) Same(ctx context.Context, a, b *shadow.Target) bool {
	one, err := started(ctx, a)
	if err != nil {
		return false
	}
	other, err := started(ctx, b)
	return err == nil && one == other
}

// Close closes the tool's own connections.
func (p *Protocol) Close() {
	p.catalogs.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.probes {
		l.close()
	}
}

// ScratchWrite returns an operation that stores the i-th content in a table of the tool itself.
func (p *Protocol) ScratchWrite(i int) *shadow.Operation {
	return scratchOperation(shadow.Write, "INSERT scratch", fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS cinch_shadow; CREATE TABLE IF NOT EXISTS %s (id int PRIMARY KEY, content text);
		INSERT INTO %s VALUES (1, 'content %d') ON CONFLICT (id) DO UPDATE SET content = excluded.content`, p.scratch, p.scratch, i))
}

// ScratchRead returns an operation that reads that content.
func (p *Protocol) ScratchRead() *shadow.Operation {
	return scratchOperation(shadow.Read, "SELECT scratch", "SELECT content FROM "+p.scratch+" WHERE id = 1")
}

// ScratchClean returns an operation that drops the table, and its schema if nothing else is in it.
func (p *Protocol) ScratchClean() *shadow.Operation {
	op := scratchOperation(shadow.Write, "DROP scratch", "DROP TABLE IF EXISTS "+p.scratch)
	op.Request = pg.AppendQuery(op.Request, "DROP SCHEMA cinch_shadow")
	op.Replies = 2
	return op
}

func scratchOperation(kind shadow.Kind, name, text string) *shadow.Operation {
	return &shadow.Operation{Kind: kind, Name: name, TouchesAll: true, Request: pg.AppendQuery(nil, text)}
}
