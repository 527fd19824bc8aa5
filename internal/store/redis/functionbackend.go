package redis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// functions stores dictionaries as function libraries whose names begin with prefix. On a server without
// functions its methods return errNoFunctions.
type functions struct {
	client goredis.Cmdable
	prefix string
}

func (f functions) name(number uint32) string { return fmt.Sprintf("%s%08x", f.prefix, number) }

func (f functions) get(ctx context.Context, number uint32) (*codec.Dict, error) {
	return f.getFirst(ctx, f.name(number), number, f)
}

// getAny also looks in the archive, with one command for both.
func (f functions) getAny(ctx context.Context, number uint32, archived functions) (*codec.Dict, error) {
	return f.getFirst(ctx, fmt.Sprintf("%s*_%08x", everyPrefix, number), number, f, archived)
}

func (f functions) getFirst(ctx context.Context, pattern string, number uint32, from ...functions) (*codec.Dict, error) {
	libraries, err := f.list(ctx, pattern, true)
	if err != nil {
		return nil, err
	}
	for _, home := range from {
		for i := range libraries {
			if libraries[i].Name == home.name(number) {
				return readLibrary(number, &libraries[i])
			}
		}
	}
	return nil, envelope.ErrDictMissing
}

// readLibrary parses a library and checks the content against the full hash in its description, not only
// against the number.
func readLibrary(number uint32, l *goredis.Library) (*codec.Dict, error) {
	d, err := parseLibrary(number, l.Code)
	if err != nil {
		return nil, err
	}
	if hash, _, ok := librarySum(l); ok && hash != d.Hash() {
		return nil, fmt.Errorf("%w: SHA-256 is %x, the description says %x", ErrForeign, d.Hash(), hash)
	}
	return d, nil
}

func (f functions) add(ctx context.Context, d *codec.Dict) error {
	return f.load(ctx, libraryCode(f.name(d.Number()), d))
}

// load adds a library. It is no error if a library of that name exists.
func (f functions) load(ctx context.Context, code string) error {
	err := f.client.FunctionLoad(ctx, code).Err()
	switch {
	case isTaken(err):
		return nil
	case isUnknownCommand(err):
		return errNoFunctions
	}
	return classify(err)
}

func (f functions) remove(ctx context.Context, number uint32) error {
	err := f.client.FunctionDelete(ctx, f.name(number)).Err()
	switch {
	case goredis.HasErrorPrefix(err, "Library not found"), goredis.HasErrorPrefix(err, "ERR Library not found"):
		return nil
	case isUnknownCommand(err):
		return errNoFunctions
	}
	return classify(err)
}

func (f functions) list(ctx context.Context, pattern string, code bool) ([]goredis.Library, error) {
	q := goredis.FunctionListQuery{LibraryNamePattern: pattern, WithCode: code}
	libraries, err := f.client.FunctionList(ctx, q).Result()
	if isUnknownCommand(err) {
		return nil, errNoFunctions
	}
	return libraries, classify(err)
}

// librarySum returns the hash and the size from a library's description.
func librarySum(l *goredis.Library) (hash [32]byte, size int, ok bool) {
	for _, f := range l.Functions {
		if f.Name == l.Name {
			return parseDescription(f.Description)
		}
	}
	return hash, 0, false
}
