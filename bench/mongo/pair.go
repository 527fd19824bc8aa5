package main

import (
	"context"

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
	ops := b.operations(c, &unread{})
	for range 10 {
		for _, op := range ops {
			if err := op.repeat(10); err != nil {
				return err
			}
		}
	}
	return nil
}
