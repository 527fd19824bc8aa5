package mongo

import (
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
)

// MaxTrained is how large dictionaries should be made, in bytes. Larger ones save some
// percent more, but each connection may have to carry them.
const MaxTrained = 32 << 10

var errPair = errors.New("what another gateway does not send")

var shelfLimits = pair.Limits{Bytes: 64 << 20, Idle: 8 << 20, Each: 4 << 10}

// pairs are what the connections between a gateway and other gateways share.
type pairs struct {
	pair.Totals
	rules  *rules
	codecs *codecs
	shelf  *pair.Shelf // of dictionaries of other gateways
}

func newPairs(r *rules, c *codecs) *pairs {
	return &pairs{rules: r, codecs: c, shelf: pair.NewShelf(shelfLimits)}
}

// shelved returns the dictionary that a frame brings or, one that is known, names by its hash.
func (p *pairs) shelved(b []byte, known bool) (*codec.Dict, error) {
	if known {
		if len(b) != 32 {
			return nil, fmt.Errorf("%w: a hash of %d bytes", errPair, len(b))
		}
		if d := p.shelf.Find([32]byte(b)); d != nil {
			return d, nil
		}
		return nil, fmt.Errorf("%w: a dictionary that is not here", errPair)
	}
	d, err := codec.NewDict(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPair, err)
	}
	if d = p.shelf.Add(d); d == nil {
		return nil, fmt.Errorf("%w: more dictionaries than %d bytes", errPair, shelfLimits.Bytes)
	}
	return d, nil
}
