package main

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cinch-layer/cinch/test/rig"
)

const (
	pairRules    = "rules: [{name: all, setting: zstd-3, dictionary: auto, min_gain: 5%}]"
	farSettings  = "peers: true\n    " + pairRules
	pairTraining = "training: {min_samples: 400, poll: 100ms, interval: 1h, cpu: 95%}"
)

// gatePair holds two gateways that outlive the links, so that they train only once. The links between them
// use the same address.
type gatePair struct {
	near, far *server
	between   string
}

// startPair starts the far gateway. The near one is started when there is a link.
func (b *bench) startPair() (err error) {
	if b.pair.far != nil {
		return nil
	}
	if b.pair.between, err = rig.FreeAddr(); err != nil {
		return err
	}
	b.pair.far, err = b.startGateway(b.mongod.addr, pairTraining, farSettings)
	return err
}

// startNear starts the near gateway and trains both.
func (b *bench) startNear(s *stage) (err error) {
	if b.pair.near != nil {
		return nil
	}
	if b.pair.near, err = b.startGateway(b.pair.between, pairTraining, pairRules); err != nil {
		return err
	}
	c, err := connect(b.pair.near.addr, "")
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	return b.teach(s, c)
}

// taught is the largest size, in bytes, of an insert of one document and of a reply with one document when
// dictionaries are in use.
const taught = 250

// teach runs operations until the pair has dictionaries for them, on documents that are not measured
// afterwards.
func (b *bench) teach(s *stage, c *mongo.Client) error {
	coll := c.Database("shop").Collection("users")
	find1 := operation{"find 1", func(i int) func() error { return func() error { return find(coll, lesson(i), 1) } }}
	find10 := operation{"find 10", func(i int) func() error { return func() error { return find(coll, lesson(i), 10) } }}
	find100 := operation{"find 100", func(i int) func() error { return func() error { return find(coll, lesson(i), 100) } }}
	ops := b.operations(c)
	for round := range 100 {
		for _, op := range []operation{find1, find10, find100, ops[opInsert100], ops[opUpdate]} {
			if err := op.repeat(round*50, 10); err != nil {
				return err
			}
		}
		_, reply, err := s.bytes(find1, 50)
		if err != nil {
			return err
		}
		insert, _, err := s.bytes(ops[opInsert1], 50)
		if err != nil {
			return err
		}
		if reply < taught && insert < taught && round > 4 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the pair made no dictionaries")
}

// lesson returns the number of a user in the first half.
func lesson(i int) int { return i * 37 % (stored/2 - 100) }
