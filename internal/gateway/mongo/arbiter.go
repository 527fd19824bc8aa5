package mongo

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Several gateways in front of one replica set. A driver uses only the members that the primary names. If it
// knew the primary by the addresses of two gateways, it would see two primaries and drop one. So each gateway
// names only its own addresses, and a driver forgets the others. But a gateway can name arbiters besides.
// Drivers monitor arbiters without logging in or sending them operations, and when no primary is left they
// accept an arbiter's list of members.
//
// So each gateway has a standby, a listener that answers as an arbiter would, and names the standbys of the
// other gateways. When a gateway dies, its clients get the addresses of another gateway from that one's
// standby.
//
//	driver ── hello ──> gateway A: hosts A1 A2 A3, arbiters: standby of B
//	       ── hello ──> standby of B: hosts B1 B2 B3, arbiters: standby of A

// standby answers the hellos of drivers for a gateway process. It runs no operations.
type standby struct {
	members   []endpoint.Upstream
	others    []string // standbys of other processes
	addresses *addresses
	ctx       context.Context // ends with the gateway
	stats     *gateway.Stats

	mu      sync.Mutex
	doc     []byte    // reply of a member to hello; nil: none
	set     string    // name of the replica set in doc
	askedAt time.Time // when members were last asked
}

const standbyTTL = 500 * time.Millisecond // members are not asked again within this time

var errNoMember = errors.New("no member of a replica set answers")

// memberHello returns a member's reply to hello, and the name of its replica set.
func (s *standby) memberHello() (doc []byte, set string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.askedAt) < standbyTTL {
		if s.doc == nil {
			err = errNoMember
		}
		return s.doc, s.set, err
	}
	type answer struct {
		doc []byte
		set string
	}
	answers := make(chan answer, len(s.members))
	for _, up := range s.members {
		go func() {
			var a answer
			defer func() { answers <- a }()
			defer gateway.CatchPanic(s.addresses.log, s.stats, nil)
			doc, err := askHello(s.ctx, up)
			if d, bad := parseHelloReply(doc); err == nil && bad == nil && d.me != "" {
				a = answer{doc, d.setName}
			}
		}()
	}
	s.doc = nil
	late := time.After(primaryTimeout)
	for range s.members {
		select {
		case a := <-answers:
			if a.set != "" {
				s.doc, s.set, s.askedAt = a.doc, a.set, time.Now()
				return s.doc, s.set, nil
			}
			continue
		case <-late:
		}
		break
	}
	s.askedAt = time.Now()
	return nil, "", errNoMember
}

// announce makes the gateways of the process name the standbys of other processes, once the replica set's
// name is known.
func (s *standby) announce(context.Context) {
	askUntil(s.ctx, func() error {
		_, set, err := s.memberHello()
		if err == nil {
			s.addresses.setStandbys(set, s.others)
			s.addresses.log.Info("drivers that lose this gateway are told of the standbys", "set", set, "standbys", s.others)
		}
		return err
	})
}

// standbyFields lists the fields of a member's reply to hello that a standby repeats: the description of the
// replica set, and the limits on messages.
var standbyFields = map[string]bool{
	"setName": true, "setVersion": true, "hosts": true, "passives": true, "arbiters": true,
	"maxBsonObjectSize": true, "maxMessageSizeBytes": true, "maxWriteBatchSize": true,
	"minWireVersion": true, "maxWireVersion": true, "helloOk": true,
}

// appendArbiter appends the reply to hello of a standby with address me, made from a member's reply. It has
// no topologyVersion, so that drivers ask again when they look for a primary instead of waiting for a change.
func appendArbiter(dst, doc []byte, me string, standbys []string, rename func([]byte) (string, bool)) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = bsoncore.AppendBooleanElement(dst, "isWritablePrimary", false)
	dst = bsoncore.AppendBooleanElement(dst, "ismaster", false)
	dst = bsoncore.AppendBooleanElement(dst, "secondary", false)
	dst = bsoncore.AppendBooleanElement(dst, "arbiterOnly", true)
	named := false
	err := wire.Elements(doc, func(e wire.Element) bool {
		switch key := string(e.Key); {
		case key == "arbiters":
			dst, named = appendAllRenamed(dst, doc, e, rename, standbys...), true
		case key == "hosts", key == "passives":
			dst = appendAllRenamed(dst, doc, e, rename)
		case standbyFields[key]:
			dst = append(dst, e.Of(doc)...)
		}
		return true
	})
	if !named {
		dst = appendStandbys(dst, standbys)
	}
	dst = bsoncore.AppendStringElement(dst, "me", me)
	dst = bsoncore.AppendDateTimeElement(dst, "localTime", time.Now().UnixMilli())
	dst = bsoncore.AppendDoubleElement(dst, "ok", 1)
	return wire.FinishDocument(dst, start), err
}
