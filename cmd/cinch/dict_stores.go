package main

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
)

// dictStore is a store as the dict commands see it. Errors are worded for people.
type dictStore interface {
	cinch.Dictionaries
	label() string // what the store is called, without credentials
	Close()

	listDictionaries(ctx context.Context) ([]storedDict, error)
	records(ctx context.Context) ([]storedRecord, error)
	// count counts the values that name each dictionary.
	count(ctx context.Context) (map[uint32]int, error)
	// collect archives those that no value names.
	collect(ctx context.Context, wait time.Duration, tell func(string, ...any), numbers []uint32) ([]collected, error)
	// restore makes a dictionary live, and forget erases an archived one.
	restore(ctx context.Context, d *codec.Dict) error
	forget(ctx context.Context, number uint32) error
	failure(err error) error
}

var (
	_ dictStore = (*redisDicts)(nil)
	_ dictStore = (*tarantoolDicts)(nil)
)

// openDictStore opens the store at the URL. Close it after use.
func openDictStore(ctx context.Context, rawURL string) (dictStore, error) {
	if isTarantoolURL(rawURL) {
		return openTarantoolDicts(ctx, rawURL)
	}
	if !isStoreURL(rawURL) {
		return nil, noStore(rawURL)
	}
	return openRedisDicts(ctx, rawURL)
}

// holdsDicts recognizes the URLs that openDictStore takes.
func holdsDicts(s string) bool { return isStoreURL(s) || isTarantoolURL(s) }

// storedDict is one of a store.
type storedDict struct {
	number   uint32
	archived bool
	info     dictInfo
}

// recordKeeper is where gateways keep records of rules.
type recordKeeper interface {
	Record(ctx context.Context, name string) (text string, version uint64, err error)
	DeleteRecord(ctx context.Context, name string, version uint64) (bool, error)
}

// storedRecord is what gateways have written about a rule.
type storedRecord struct {
	autodict.Record
	keeper recordKeeper
	name   string
}

// appendRecords adds those that can be read: others tell nothing.
func appendRecords(dst []storedRecord, keeper recordKeeper, texts map[string]string) []storedRecord {
	for name, text := range texts {
		if r, err := autodict.ParseRecord(text); err == nil {
			dst = append(dst, storedRecord{r, keeper, name})
		}
	}
	return dst
}

// remove deletes the record unless a gateway has written it meanwhile.
func (r *storedRecord) remove(ctx context.Context, after time.Duration) (removed bool, err error) {
	text, version, err := r.keeper.Record(ctx, r.name)
	if err != nil {
		return false, err
	}
	if now, err := autodict.ParseRecord(text); err != nil || !now.Abandoned(time.Now(), after) {
		return false, err
	}
	return r.keeper.DeleteRecord(ctx, r.name, version)
}
