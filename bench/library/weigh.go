package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/bench/rig"
	"github.com/cinch-layer/cinch/internal/policy"
)

// holding is what the values of a lane take in its server, in bytes.
type holding struct {
	Lengths int64 `json:"lengths"`      // of what is stored in place of the values
	Classes int64 `json:"allocated"`    // for those, by the allocator's size classes
	Keys    int64 `json:"memory_usage"` // of all keys
	Used    int64 `json:"used_memory"`  // that is given back when all keys are gone
	Rest    int64 `json:"rest"`         // used_memory then, and that of functions beside it
	Sealed  int   `json:"sealed"`       // values that name the dictionary
}

// weigh asks the server, when client and gateway have gone. It takes all keys out of it.
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
	functions, err := rig.InfoNumber(l.direct, "memory", "used_memory_vm_functions") // which is beside used_memory
	h.Used, h.Rest = used-left, left+functions
	return h, err
}

// forgetCommands has the server give back the histogram, of 20 KB, that it keeps for each kind of command it has met.
func forgetCommands(direct *redis.Client) error {
	return errors.Join(direct.ConfigSet(context.Background(), "latency-tracking", "no").Err(), direct.ConfigResetStat(context.Background()).Err())
}

// usedMemory asks over a new connection: what the server keeps for one depends on what it was used for.
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
	if head, err := cinch.ParseHeader(stored); err == nil && head.HasDict && head.Dict == number {
		h.Sealed++
	}
	return err
}
