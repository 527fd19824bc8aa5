package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// Place says where in a server a dictionary is.
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
	Problem string // not empty: there is something under this number that can't be used, and why
}

// List returns the dictionaries that the server holds, by number: the libraries, read
// from their descriptions alone, or on a server without functions the keys, which takes
// a scan of database 0.
func (d *Dicts) List(ctx context.Context) ([]Info, error) {
	infos, err := d.functions.infos(ctx)
	if errors.Is(err, errNoFunctions) {
		infos, err = d.keys.infos(ctx)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Number, b.Number) })
	return infos, err
}

func (f functions) infos(ctx context.Context) ([]Info, error) {
	libraries, err := f.list(ctx, libraryPrefix+"*", false)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for i := range libraries {
		number, ok := libraryNumber(libraries[i].Name)
		if !ok {
			continue
		}
		info := Info{Number: number, Place: InFunction}
		if info.Hash, info.Bytes, ok = librarySum(&libraries[i]); !ok {
			info.Problem = "the library does not describe a dictionary"
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (k keys) infos(ctx context.Context) ([]Info, error) {
	numbers, err := k.numbers(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(numbers))
	for _, n := range numbers {
		x, err := k.get(ctx, n)
		if errors.Is(err, cinch.ErrDictMissing) {
			continue // deleted since the scan
		}
		if err != nil && !errors.Is(err, ErrForeign) {
			return infos, err
		}
		infos = append(infos, keyInfo(n, x, err))
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
