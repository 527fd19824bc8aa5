package grpc

import (
	"fmt"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// shelfLimits limits the dictionaries from all connections of a gateway.
var shelfLimits = pair.Limits{Bytes: 64 << 20}

// dictionaries holds the dictionaries of a gateway: those that it compresses with, and those that clients
// which are gateways have sent.
type dictionaries struct {
	policy *atomic.Pointer[policy.Messages]
	kinds  *dictionary.Messages // kinds of messages that the gateway compresses
	shelf  *pair.Shelf          // of dictionaries from clients
	totals *pair.Totals
}

func newDictionaries(p *atomic.Pointer[policy.Messages], kinds *dictionary.Messages, totals *pair.Totals) *dictionaries {
	return &dictionaries{policy: p, kinds: kinds, shelf: pair.NewShelf(shelfLimits), totals: totals}
}

// forRule returns the dictionary for compressing a rule's messages, or nil for none.
func (d *dictionaries) forRule(r *policy.MessageRule, p *pairing) *codec.Dict {
	switch {
	case r.Dict != nil:
		return r.Dict
	case r.AutoDict:
		if k := d.kinds.Kind(r, p.method, p.direction); k != nil {
			dict, _ := k.Dictionary()
			return dict
		}
	}
	return nil
}

// forReplies returns the dictionary with the hash if replies are compressed with it, or nil.
func (d *dictionaries) forReplies(hash [wire.HashLen]byte) *codec.Dict {
	if p := d.policy.Load(); p != nil {
		for _, r := range p.Rules() {
			if r.Dict != nil && r.Dict.Hash() == hash && r.Direction&policy.Reply != 0 && len(r.Dict.Content()) <= maxPairDict {
				return r.Dict
			}
		}
	}
	dict, _ := d.kinds.ByHash(hash, policy.Reply)
	return dict
}

// shelved adds a dictionary with the given content to the shelf. The caller must drop it once.
func (d *dictionaries) shelved(content []byte) (*codec.Dict, error) {
	dict, err := codec.NewDict(content)
	if err != nil {
		return nil, err
	}
	if !wire.Nameable(dict.Number()) {
		return nil, fmt.Errorf("%w: a dictionary that can't be named", wire.ErrPair)
	}
	if dict = d.shelf.Add(dict); dict == nil {
		return nil, refusal{codeResourceExhausted, "too many dictionaries"}
	}
	return dict, nil
}
