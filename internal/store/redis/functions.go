package redis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
)

// functions keeps dictionaries as function libraries. Its methods return errNoFunctions
// from a server that has none.
type functions struct{ client goredis.UniversalClient }

func (f functions) get(ctx context.Context, number uint32) (*codec.Dict, error) {
	name := libraryName(number)
	libraries, err := f.list(ctx, name, true)
	if err != nil {
		return nil, err
	}
	for i := range libraries {
		if libraries[i].Name == name {
			return readLibrary(number, &libraries[i])
		}
	}
	return nil, cinch.ErrDictMissing
}

// readLibrary opens a library and checks the content against the full hash that its
// description gives, not only against the number.
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
	err := f.client.FunctionLoad(ctx, libraryCode(d)).Err()
	if isTaken(err) {
		return nil
	}
	return classify(err)
}

// sums returns the full hashes of the dictionaries that the server says it holds.
func (f functions) sums(ctx context.Context) (map[uint32][32]byte, error) {
	libraries, err := f.list(ctx, libraryPrefix+"*", false)
	if err != nil {
		return nil, err
	}
	sums := make(map[uint32][32]byte, len(libraries))
	for i := range libraries {
		number, named := libraryNumber(libraries[i].Name)
		hash, _, ok := librarySum(&libraries[i])
		if named && ok {
			sums[number] = hash
		}
	}
	return sums, nil
}

func (f functions) list(ctx context.Context, pattern string, code bool) ([]goredis.Library, error) {
	q := goredis.FunctionListQuery{LibraryNamePattern: pattern, WithCode: code}
	libraries, err := f.client.FunctionList(ctx, q).Result()
	if isUnknownCommand(err) {
		return nil, errNoFunctions
	}
	return libraries, classify(err)
}

// librarySum reads the hash and the size that a library's description gives.
func librarySum(l *goredis.Library) (hash [32]byte, size int, ok bool) {
	for _, f := range l.Functions {
		if f.Name == l.Name {
			return parseDescription(f.Description)
		}
	}
	return hash, 0, false
}
