package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// Place is the kind of place where a server stores a dictionary.
type Place string

// The places.
const (
	InFunction Place = "function" // a library, outside the keyspace
	InKey      Place = "key"      // a key of database 0
)

// Info describes a dictionary in a server.
type Info struct {
	Number  uint32
	Hash    [32]byte // SHA-256 of the content
	Bytes   int      // of the content
	Place   Place
	State   State
	Since   time.Time // when it was retired; zero if it was not, or if unknown
	Problem string    // not empty: why the content stored under this number can't be used
}

// State is the state of a dictionary.
type State = store.State

// The states.
const (
	Live     = store.Live
	Retired  = store.Retired
	Archived = store.Archived
)

// List returns the dictionaries in the server, sorted by number. It reads the descriptions of the libraries;
// on a server without functions it reads the keys, which takes a scan of database 0.
func (p *dictBackends) List(ctx context.Context) ([]Info, error) {
	infos, err := p.functions.infos(ctx)
	if errors.Is(err, errNoFunctions) {
		infos, err = p.keyInfos(ctx)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Number, b.Number) })
	return infos, err
}

func (f functions) infos(ctx context.Context) ([]Info, error) {
	libraries, err := f.list(ctx, everyPrefix+"*", false)
	if err != nil {
		return nil, err
	}
	var infos []Info
	marks := map[uint32]time.Time{}
	for i := range libraries {
		l := &libraries[i]
		if number, ok := parseNumber(l.Name, libraryPrefix); ok {
			infos = append(infos, libraryInfo(number, Live, l))
		} else if number, ok := parseNumber(l.Name, archivePrefix); ok {
			infos = append(infos, libraryInfo(number, Archived, l))
		} else if number, ok := parseNumber(l.Name, markPrefix); ok && len(l.Functions) == 1 {
			marks[number] = parseMark(l.Functions[0].Description)
		}
	}
	applyMarks(infos, marks)
	return infos, nil
}

func libraryInfo(number uint32, s State, l *goredis.Library) Info {
	info := Info{Number: number, Place: InFunction, State: s}
	var ok bool
	if info.Hash, info.Bytes, ok = librarySum(l); !ok {
		info.Problem = "the library does not describe a dictionary"
	}
	return info
}

func applyMarks(infos []Info, marks map[uint32]time.Time) {
	for i := range infos {
		if since, marked := marks[infos[i].Number]; marked {
			infos[i].Since = since
			if infos[i].State == Live {
				infos[i].State = Retired
			}
		}
	}
}

func (p *dictBackends) keyInfos(ctx context.Context) ([]Info, error) {
	infos, err := p.keys.infos(ctx, Live)
	if err != nil {
		return nil, err
	}
	archived, err := p.archive.keys.infos(ctx, Archived)
	if err != nil {
		return nil, err
	}
	infos = append(infos, archived...)
	marks := map[uint32]time.Time{}
	for _, i := range infos {
		since, marked, _, err := p.archive.keys.marked(ctx, i.Number)
		if err != nil {
			return nil, err
		}
		if marked {
			marks[i.Number] = since
		}
	}
	applyMarks(infos, marks)
	return infos, nil
}

func (k keys) infos(ctx context.Context, s State) ([]Info, error) {
	numbers, err := k.numbers(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(numbers))
	for _, n := range numbers {
		x, err := k.get(ctx, n)
		if errors.Is(err, envelope.ErrDictMissing) {
			continue // deleted since the scan
		}
		if err != nil && !errors.Is(err, ErrForeign) {
			return infos, err
		}
		info := keyInfo(n, x, err)
		info.State = s
		infos = append(infos, info)
	}
	return infos, nil
}

func keyInfo(number uint32, x *codec.Dict, err error) Info {
	info := Info{Number: number, Place: InKey}
	if err != nil {
		info.Problem = err.Error()
		return info
	}
	info.Hash, info.Bytes = x.Hash(), len(x.Content())
	return info
}
