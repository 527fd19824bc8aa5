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

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/shadow/postgres/sql"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// Protocol is PostgreSQL's for the engine. Make it with New, and close it.
type Protocol struct {
	functions sql.Functions
	scratch   string                    // table
	looked    map[string]*sql.Statement // the mirror's goroutine's

	mu      sync.Mutex
	lookers map[string]*looker // by target
}

// New asks a target for its functions.
func New(ctx context.Context, target gateway.Upstream) (*Protocol, error) {
	c, err := connect(ctx, target, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	functions, err := learn(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	return &Protocol{
		functions: functions, scratch: "cinch_shadow.t" + strconv.FormatInt(time.Now().UnixNano(), 36),
		looked: map[string]*sql.Statement{}, lookers: map[string]*looker{},
	}, nil
}

// learn reads which functions may do more than read.
func learn(ctx context.Context, c *pgconn.PgConn) (sql.Functions, error) {
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

// mostLooked bounds the texts of which is kept what they are.
const (
	mostLooked      = 2000
	mostLookedBytes = 16 << 10
)

// look says what a text is.
func (p *Protocol) look(text string) *sql.Statement {
	if s := p.looked[text]; s != nil {
		return s
	}
	s := sql.Look(text, p.functions)
	if len(text) <= mostLookedBytes {
		if len(p.looked) >= mostLooked {
			clear(p.looked)
		}
		p.looked[text] = s
	}
	return s
}

// Reader returns what understands a new connection.
func (p *Protocol) Reader() shadow.Reader { return newReader(p) }

// Open answers what a client asks about TLS.
func (p *Protocol) Open(client net.Conn, config *tls.Config) (net.Conn, []byte, error) {
	return postgres.Accept(client, config)
}

// Reach connects to production.
func (p *Protocol) Reach(ctx context.Context, production gateway.Upstream) (net.Conn, error) {
	return postgres.Dial(ctx, production)
}

// Dial returns a connection that is made when it is used: the first operation says to which database.
func (p *Protocol) Dial(_ context.Context, t *shadow.Target) (shadow.Conn, error) {
	return &conn{target: t, looker: p.looker(t)}, nil
}

// Look says what a target does with what was sent last.
func (p *Protocol) Look(ctx context.Context, on, own shadow.Conn) shadow.Progress {
	c := on.(*conn)
	var pid uint32
	if own, ok := own.(*conn); ok {
		pid = own.pid.Load()
	}
	return c.looker.look(ctx, c.pid.Load(), pid)
}

func (p *Protocol) looker(t *shadow.Target) *looker {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lookers[t.Name]
	if l == nil || l.target != t {
		if l != nil {
			l.close()
		}
		l = &looker{target: t}
		p.lookers[t.Name] = l
	}
	return l
}

// Close ends the connections that are beside the mirror.
func (p *Protocol) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lookers {
		l.close()
	}
}

// ScratchWrite stores the i-th content in a table of the tool's own.
func (p *Protocol) ScratchWrite(i int) *shadow.Operation {
	return own(shadow.Write, "INSERT scratch", fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS cinch_shadow; CREATE TABLE IF NOT EXISTS %s (id int PRIMARY KEY, content text);
		INSERT INTO %s VALUES (1, 'content %d') ON CONFLICT (id) DO UPDATE SET content = excluded.content`, p.scratch, p.scratch, i))
}

// ScratchRead reads it.
func (p *Protocol) ScratchRead() *shadow.Operation {
	return own(shadow.Read, "SELECT scratch", "SELECT content FROM "+p.scratch+" WHERE id = 1")
}

// ScratchClean removes the table, and its schema if nothing else is in it.
func (p *Protocol) ScratchClean() *shadow.Operation {
	op := own(shadow.Write, "DROP scratch", "DROP TABLE IF EXISTS "+p.scratch)
	op.Request = pg.AppendQuery(op.Request, "DROP SCHEMA cinch_shadow")
	op.Replies = 2
	return op
}

func own(kind shadow.Kind, name, text string) *shadow.Operation {
	return &shadow.Operation{Kind: kind, Name: name, Whole: true, Request: pg.AppendQuery(nil, text)}
}
