package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/rig"
)

// holding holds the sizes, in bytes, of a lane's values in its server.
type holding struct {
	Lengths int64 `json:"lengths"`      // of the stored values
	Classes int64 `json:"allocated"`    // the same, rounded up to the allocator's size classes
	Keys    int64 `json:"memory_usage"` // of all keys
	Used    int64 `json:"used_memory"`  // freed by deleting all keys
	Rest    int64 `json:"rest"`         // used_memory after that, plus the memory of functions outside of it
	Sealed  int   `json:"sealed"`       // values that use the dictionary
}

// weigh measures the sizes in the server after ending client and gateway. It deletes all keys.
func (l *lane) weigh(number uint32) (h holding, err error) {
	l.stopClient()
	for i := range l.values {
		if err := h.add(l.direct, fmt.Sprintf("record:%d", i), number); err != nil {
			return h, err
		}
	}
	if l.sealed && h.Sealed < len(l.values)/2 {
		return h, fmt.Errorf("only %d of %d values name the dictionary", h.Sealed, len(l.values))
	}
	if err := forgetCommands(l.direct); err != nil {
		return h, err
	}
	used, err := l.usedMemory()
	if err != nil {
		return h, err
	}
	if err := l.direct.FlushAll(context.Background()).Err(); err != nil {
		return h, err
	}
	left, err := l.usedMemory()
	if err != nil {
		return h, err
	}
	functions, err := rig.InfoNumber(l.direct, "memory", "used_memory_vm_functions") // not part of used_memory
	h.Used, h.Rest = used-left, left+functions
	return h, err
}

// forgetCommands frees the server's latency histograms: one of 20 KB for each command it has executed.
func forgetCommands(direct *redis.Client) error {
	return errors.Join(direct.ConfigSet(context.Background(), "latency-tracking", "no").Err(), direct.ConfigResetStat(context.Background()).Err())
}

// usedMemory uses a new connection: the server's memory for a connection depends on its use.
func (l *lane) usedMemory() (int64, error) {
	_ = l.direct.Close()
	l.direct = l.server.Client()
	return rig.UsedMemory(l.direct)
}

func (h *holding) add(direct *redis.Client, key string, number uint32) error {
	stored, err := direct.Get(context.Background(), key).Bytes()
	if err != nil {
		return err
	}
	memory, err := direct.MemoryUsage(context.Background(), key).Result()
	allocated, _ := policy.Cost(policy.String, len(stored), len(stored))
	h.Lengths += int64(len(stored))
	h.Classes += int64(allocated)
	h.Keys += memory
	if head, err := envelope.ParseHeader(stored); err == nil && head.HasDict && head.Dict == number {
		h.Sealed++
	}
	return err
}
