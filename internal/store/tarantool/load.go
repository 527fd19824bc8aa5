package tarantool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarantool/go-iproto"
	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"
)

// System spaces that describe the others. _vspace and _vindex are views that show each user what it has a
// right to.
const (
	spaceVSpace       = 281
	spaceVIndex       = 289
	spaceForeignKeys  = 356
	spaceSQLChecks    = 364
	loadTries         = 5
	selectEverything  = 0xffffffff
	compressionOption = "compression"
)

// Load reads the schema, and again if it changed meanwhile. What the user may not see is left out.
func Load(ctx context.Context, c *Conn) (*Schema, error) {
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
		l := &loader{ctx: ctx, live: live, timeout: c.o.Timeout}
		s, err := l.load()
		if err != nil {
			return nil, err
		}
		if s.Version = live.versions.newest.Load(); s.Version == before {
			return s, nil
		}
	}
	return nil, ErrSchemaMoves
}

type loader struct {
	ctx     context.Context
	live    *serverConn
	timeout time.Duration
	schema  *Schema
	hidden  []string
}

func (l *loader) load() (*Schema, error) {
	l.schema = &Schema{live: l.live, Server: l.live.server, byName: make(map[string]*Space)}
	steps := []loadStep{{space: spaceVSpace, take: l.addSpace}, {space: spaceVIndex, take: l.addIndex}}
	if !l.schema.Server.AtLeast(2, 11) { // later servers have all constraints in the spaces' descriptions
		steps = append(steps,
			loadStep{spaceForeignKeys, "_fk_constraint", l.addForeignKey, l.loadForeignKeys},
			loadStep{spaceSQLChecks, "_ck_constraint", l.addCheck, l.loadChecks})
	}
	for _, step := range steps {
		if err := l.step(step); err != nil {
			return nil, err
		}
		if step.space == spaceVSpace {
			slices.SortFunc(l.schema.spaces, func(a, b *Space) int { return int(int64(a.ID) - int64(b.ID)) })
		}
	}
	for _, s := range l.schema.spaces {
		s.Hidden = l.hidden
		slices.SortFunc(s.Indexes, func(a, b Index) int { return int(a.ID) - int(b.ID) })
	}
	return l.schema, nil
}

// loadStep reads a space that describes others.
type loadStep struct {
	space uint32
	name  string // "": it must exist and be readable
	take  func(t []any) error
	ask   func() error // another way to its content, for users who may not read it
}

func (l *loader) step(step loadStep) error {
	tuples, err := l.all(step.space)
	switch {
	case step.name != "" && isCode(err, iproto.ER_NO_SUCH_SPACE):
		return nil // newer servers keep it elsewhere
	case step.name != "" && isCode(err, iproto.ER_ACCESS_DENIED):
		if err := step.ask(); err != nil {
			l.hidden = append(l.hidden, step.name)
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
func (l *loader) all(space uint32) ([][]any, error) {
	var tuples rawTuples
	err := l.live.do(l.ctx, l.timeout, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(space).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	return tuples, err
}

// rawTuples decodes the content of system spaces: numbers as int64 and uint64, and maps with keys of any
// type, since users may write anything into a format.
type rawTuples [][]any

func (t *rawTuples) DecodeMsgpack(d *msgpack.Decoder) error {
	var raw msgpack.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	own := msgpack.NewDecoder(bytes.NewReader(raw))
	own.UseLooseInterfaceDecoding(true)
	own.SetMapDecoder(func(d *msgpack.Decoder) (any, error) { return d.DecodeUntypedMap() })
	return own.Decode((*[][]any)(t))
}

// addSpace reads [id, owner, name, engine, field_count, {options}, [format]].
func (l *loader) addSpace(t []any) error {
	id, ok := integer(at(t, 0))
	name, ok2 := at(t, 2).(string)
	if !ok || !ok2 || id < 0 {
		return fmt.Errorf("unknown definition of a space %v", t)
	}
	s := &Space{ID: uint32(id), Name: name, fieldConstraints: make(map[int]string)}
	s.Engine, _ = at(t, 3).(string)
	count, _ := integer(at(t, 4))
	s.FieldCount = int(count)
	options := mapOf(at(t, 5))
	s.View, _ = options["view"].(bool)
	s.SQL, _ = options["sql"].(string)
	format, _ := at(t, 6).([]any)
	for i, f := range format {
		s.Fields = append(s.Fields, s.field(i, f))
	}
	s.noteOptions(options)
	l.schema.spaces = append(l.schema.spaces, s)
	l.schema.byName[name] = s
	return nil
}

func (s *Space) field(number int, description any) Field {
	m := mapOf(description)
	f := Field{Number: number, Type: anyType}
	f.Name, _ = m["name"].(string)
	if kind, ok := m["type"].(string); ok {
		f.Type = fullType(kind)
	}
	f.Nullable, _ = m["is_nullable"].(bool)
	f.Compression, _ = m[compressionOption].(string)
	s.noteFormat(&f, m)
	return f
}

// fullType replaces the short names that old formats use.
func fullType(kind string) string {
	switch kind {
	case "*":
		return anyType
	case "str":
		return "string"
	case "num", "uint":
		return "unsigned"
	case "int":
		return "integer"
	}
	return kind
}

// addIndex reads [space, id, name, type, {options}, [parts]].
func (l *loader) addIndex(t []any) error {
	space, ok := integer(at(t, 0))
	id, ok2 := integer(at(t, 1))
	if !ok || !ok2 || space < 0 {
		return fmt.Errorf("unknown definition of an index %v", t)
	}
	s := l.schema.Space(uint32(space))
	if s == nil {
		return nil // created since the spaces were read: the version will differ
	}
	x := Index{ID: uint32(id)}
	x.Name, _ = at(t, 2).(string)
	x.Type, _ = at(t, 3).(string)
	options := mapOf(at(t, 4))
	x.Unique, _ = options["unique"].(bool)
	parts, known := at(t, 5).([]any)
	for _, p := range parts {
		part, ok := partOf(p)
		known = known && ok
		x.Parts = append(x.Parts, part)
	}
	function, _ := integer(options["func"])
	x.Func = options["func"] != nil && function != 0
	s.Indexes = append(s.Indexes, x)
	s.noteIndex(&x, known)
	return nil
}

// partOf reads [field, type, …] or {field, type, path, collation, is_nullable}.
func partOf(description any) (Part, bool) {
	if list, ok := description.([]any); ok {
		field, ok := integer(at(list, 0))
		kind, _ := at(list, 1).(string)
		return Part{Field: int(field), Type: fullType(kind)}, ok && field >= 0
	}
	m := mapOf(description)
	field, ok := integer(m["field"])
	p := Part{Field: int(field), Collation: m["collation"] != nil}
	kind, _ := m["type"].(string)
	p.Type = fullType(kind)
	p.Path, _ = m["path"].(string)
	p.Nullable, _ = m["is_nullable"].(bool)
	return p, ok && field >= 0
}

// spaceNumber returns the number of one of Cinch's spaces.
func spaceNumber(ctx context.Context, c *Conn, name string) (uint32, error) {
	schema, err := Load(ctx, c)
	if err != nil {
		return 0, err
	}
	s := schema.SpaceByName(name)
	if s == nil {
		return 0, fmt.Errorf("%w: there is no space %s that the user may read", ErrNoInit, name)
	}
	return s.ID, nil
}
