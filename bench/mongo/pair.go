package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cinch-layer/cinch/test/rig"
)

const (
	pairRules   = "rules: [{name: all, setting: zstd-3, min_gain: 5%}]"
	farSettings = "peers: true\n    " + pairRules
)

// gatePair holds two gateways that outlive the emulated links, which use the same address between them.
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
	b.pair.far, err = b.startGateway(b.mongod.addr, "", farSettings)
	return err
}

// startNear starts the near gateway, and fills the history of the link.
func (b *bench) startNear() (err error) {
	if b.pair.near != nil {
		return nil
	}
	if b.pair.near, err = b.startGateway(b.pair.between, "", pairRules); err != nil {
		return err
	}
	c, err := connect(b.pair.near.addr, "")
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	return b.fill(c)
}

// fill runs operations on documents that are not measured afterwards.
func (b *bench) fill(c *mongo.Client) error {
	coll := c.Database("shop").Collection("users")
	finds := func(n int) operation {
		return operation{fmt.Sprint("find ", n), func(i int) func() error { return func() error { return find(coll, lesson(i), n) } }}
	}
	ops := b.operations(c)
	for round := range 10 {
		for _, op := range []operation{finds(1), finds(10), finds(100), ops[opInsert1], ops[opInsert100], ops[opUpdate]} {
			if err := op.repeat(round*50, 10); err != nil {
				return err
			}
		}
	}
	return nil
}

// lesson returns the number of a user in the first half.
func lesson(i int) int { return i * 37 % (stored/2 - 100) }
