package redis

import (
	"context"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
)

// A Node is one primary.
type Node struct {
	store  *Store
	addr   string
	client *goredis.Client // database 0
	spaces []*Space
}

// Client returns a connection to the node, in database 0, for a Dicts. The store closes it.
func (n *Node) Client() *goredis.Client { return n.client }

// Name returns the node's address.
func (n *Node) Name() string { return n.addr }

// Spaces returns the node's databases.
func (n *Node) Spaces() []*Space { return n.spaces }

// Ping sends PING and waits for the answer.
func (n *Node) Ping(ctx context.Context) error { return n.client.Ping(ctx).Err() }

// RunID returns a text that changes when scan cursors become invalid: when the server restarts, and in a
// cluster when slots have moved, since keys may have moved past the cursor.
func (n *Node) RunID(ctx context.Context) (string, error) {
	info, err := n.info(ctx)
	if err != nil || n.store.cluster == nil {
		return info[runID], err
	}
	layout, err := n.store.Layout(ctx)
	return fmt.Sprintf("%s/%08x", info[runID], crc32.ChecksumIEEE([]byte(layout))), err
}

// runID is the field of INFO that names a server's process.
const runID = "run_id"

// Memory returns the node's own report of its memory.
func (n *Node) Memory(ctx context.Context) (store.Memory, error) {
	info, err := n.info(ctx)
	if err != nil {
		return store.Memory{}, err
	}
	number := func(name string) int64 {
		v, _ := strconv.ParseInt(info[name], 10, 64)
		return v
	}
	eviction := info["maxmemory_policy"]
	return store.Memory{
		Used: number("used_memory"), Limit: number("maxmemory"), System: number("total_system_memory"),
		Evicting: eviction != "" && eviction != "noeviction", AllInMemory: true,
	}, nil
}

// info returns the fields of INFO by name.
func (n *Node) info(ctx context.Context) (map[string]string, error) {
	text, err := n.client.Info(ctx).Result()
	if err != nil {
		return nil, classify(err)
	}
	return infoFields(text), nil
}

func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
