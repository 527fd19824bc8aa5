package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
)

// menu stands for a value of an application.
var menu = []byte(strings.Repeat(`{"dish":"dumplings","price":"7.50","currency":"EUR"},`, 40))

// A cache stores a value compressed if that saves a fifth of it and at least 64 bytes. It still reads what was
// stored before Cinch.
func Example() {
	s := envelope.NewSealer(envelope.SealerOptions{})
	setting := codec.Setting{Codec: codec.Zstd, Level: 3}
	worth := func(raw, sealed int) bool { return raw-sealed >= max(raw/5, 64) }

	cache := map[string][]byte{"old": []byte("stored before Cinch")}
	cache["menu"] = s.Seal(nil, menu, setting, worth)
	cache["name"] = s.Seal(nil, []byte("Golden Dragon"), setting, worth)

	for _, key := range []string{"menu", "name", "old"} {
		value, err := s.Open(nil, cache[key])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d bytes, sealed: %t\n", key, len(value), envelope.IsSealed(cache[key]))
	}
	// Output:
	// menu: 2120 bytes, sealed: true
	// name: 13 bytes, sealed: false
	// old: 19 bytes, sealed: false
}

// A reader distinguishes damage, after which the value is lost, from errors that may go away.
func ExampleSealer_Open() {
	s := envelope.NewSealer(envelope.SealerOptions{MaxOpen: 1 << 20})
	stored := s.Seal(nil, menu, codec.Setting{Codec: codec.LZ4}, nil)
	stored = stored[:len(stored)-1] // a byte is lost

	_, err := s.Open(nil, stored)
	switch {
	case err == nil:
		fmt.Println("ok")
	case errors.Is(err, envelope.ErrDamaged):
		fmt.Println("damaged: fetch it from the database again")
	case errors.Is(err, envelope.ErrTooLarge):
		fmt.Println("longer than this process opens")
	case errors.Is(err, envelope.ErrDictMissing):
		fmt.Println("try again when the dictionaries are loaded")
	default:
		fmt.Println(err)
	}
	// Output: damaged: fetch it from the database again
}

// loaded finds dictionaries in a set, and implements [envelope.Dictionaries].
type loaded struct{ set dict.Set }

func (l *loaded) Dictionary(number uint32) (*codec.Dict, error) {
	if d, ok := l.set.Get(number); ok {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}

// With a dictionary even short values get smaller. Every process that opens them needs it.
func ExampleDictionaries() {
	d, err := codec.NewDict(menu)
	if err != nil {
		log.Fatal(err)
	}
	var dicts loaded
	if err := dicts.set.Add(d); err != nil {
		log.Fatal(err)
	}
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: &dicts})
	dish := []byte(`{"dish":"dumplings","price":"8.20","currency":"EUR"}`)
	stored := s.Seal(nil, dish, codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil)

	value, err := s.Open(nil, stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", len(stored) < len(dish))
	fmt.Println("opened:", bytes.Equal(value, dish))

	without := envelope.NewSealer(envelope.SealerOptions{})
	_, err = without.Open(nil, stored)
	fmt.Println("dictionary missing:", errors.Is(err, envelope.ErrDictMissing))
	// Output:
	// smaller: true
	// opened: true
	// dictionary missing: true
}
