package tarantool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarantool/go-iproto"
	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// System spaces that describe the others. _vspace and _vindex are views that show each user what it has a
// right to.
const (
	spaceVSpace      = 281
	spaceVIndex      = 289
	spaceForeignKeys = 356
	spaceSQLChecks   = 364
	loadTries        = 5
	selectEverything = 0xffffffff
)

// Load reads the schema, and again if it changed meanwhile. It leaves out spaces that the user may not see.
func Load(ctx context.Context, c *Conn) (*schema.Schema, error) {
	live, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) tnt.Request { return tnt.NewPingRequest().Context(ctx) }
	if err := live.do(ctx, c.o.Timeout, ping, nil); err != nil { // so that a version is known
		return nil, err
	}
	for range loadTries {
		// All answers in between were given at versions between the two.
		before := live.versions.newest.Load()
		l := &loader{ctx: ctx, live: live, timeout: c.o.Timeout, builder: schema.NewBuilder(live.server, live.c.ClosedNow)}
		if err := l.load(); err != nil {
			return nil, err
		}
		if version := live.versions.newest.Load(); version == before {
			s := l.builder.Schema()
			s.Version = version
			return s, nil
		}
	}
	return nil, ErrSchemaMoves
}

type loader struct {
	ctx     context.Context
	live    *serverConn
	timeout time.Duration
	builder *schema.Builder
}

func (l *loader) load() error {
	steps := []loadStep{{space: spaceVSpace, take: l.builder.AddSpace}, {space: spaceVIndex, take: l.builder.AddIndex}}
	if !l.live.server.AtLeast(2, 11) { // later servers have all constraints in the spaces' descriptions
		steps = append(steps,
			loadStep{spaceForeignKeys, "_fk_constraint", l.builder.AddForeignKey, l.loadForeignKeys},
			loadStep{spaceSQLChecks, "_ck_constraint", l.builder.AddCheck, l.loadChecks})
	}
	for _, step := range steps {
		if err := l.step(step); err != nil {
			return err
		}
	}
	return nil
}

// loadStep reads a space that describes others.
type loadStep struct {
	space uint32
	name  string // "": it must exist and be readable
	take  func(t schema.Tuple) error
	ask   func() error // reads the content in another way, for users who may not read the space
}

func (l *loader) step(step loadStep) error {
	tuples, err := l.all(step.space)
	switch {
	case step.name != "" && isCode(err, iproto.ER_NO_SUCH_SPACE):
		return nil // newer servers keep it elsewhere
	case step.name != "" && isCode(err, iproto.ER_ACCESS_DENIED):
		if err := step.ask(); err != nil {
			l.builder.Hide(step.name)
			return ignoreAnswer(err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("schema: %w", classify(err))
	}
	for _, t := range tuples {
		if err := step.take(t); err != nil {
			return fmt.Errorf("schema: space #%d: %w", step.space, err)
		}
	}
	return nil
}

// ignoreAnswer returns nil if the error is the server's answer, otherwise the classified error.
func ignoreAnswer(err error) error {
	var answer tnt.Error
	if errors.As(err, &answer) || errors.Is(err, errNotReported) {
		return nil
	}
	return classify(err)
}

// all selects all tuples of a space.
func (l *loader) all(space uint32) (tuples rawTuples, err error) {
	err = l.live.do(l.ctx, l.timeout, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	return tuples, err
}

// rawTuples decodes the content of system spaces: numbers as int64 and uint64, and maps with keys of any
// type, since users may write anything into a format.
type rawTuples []schema.Tuple

func (t *rawTuples) DecodeMsgpack(d *msgpack.Decoder) error {
	var raw msgpack.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	own := msgpack.NewDecoder(bytes.NewReader(raw))
	own.UseLooseInterfaceDecoding(true)
	own.SetMapDecoder(func(d *msgpack.Decoder) (any, error) { return d.DecodeUntypedMap() })
	return own.Decode((*[]schema.Tuple)(t))
}

// spaceNumber returns the number of one of Cinch's spaces.
func spaceNumber(ctx context.Context, c *Conn, name string) (uint32, error) {
	all, err := Load(ctx, c)
	if err != nil {
		return 0, err
	}
	s := all.SpaceByName(name)
	if s == nil {
		return 0, fmt.Errorf("%w: there is no space %s that the user may read", ErrNoInit, name)
	}
	return s.ID, nil
}
