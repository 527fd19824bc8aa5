package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// StoredBytes returns the bytes that the server's keys and values take, without its own overhead. The gateway's user
// needs +info for it.
func (d *Dicts) StoredBytes(ctx context.Context) (bytes int64, servers int, err error) {
	text, err := d.dictBackends.functions.client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, "used_memory_dataset:"); ok {
			bytes, err = strconv.ParseInt(value, 10, 64)
			return bytes, 1, err
		}
	}
	return 0, 0, fmt.Errorf("%w: INFO has no used_memory_dataset", errReply)
}

// StoredBytes returns the sum over all primaries.
func (c *ClusterDicts) StoredBytes(ctx context.Context) (bytes int64, servers int, err error) {
	for _, n := range *c.leaders.Load() {
		here, _, err := n.StoredBytes(ctx)
		if err != nil {
			return 0, 0, err
		}
		bytes, servers = bytes+here, servers+1
	}
	return bytes, servers, nil
}

// DictCost is the function of this name.
func (d *Dicts) DictCost(x *codec.Dict) float64 { return DictCost(x) }

// DictCost is the function of this name.
func (c *ClusterDicts) DictCost(x *codec.Dict) float64 { return DictCost(x) }
