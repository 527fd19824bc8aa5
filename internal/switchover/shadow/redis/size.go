package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// Size returns the memory that a target reports as used, and its CPU time.
func (p *Protocol) Size(ctx context.Context, t *shadow.Target) (s usage.Size, err error) {
	rdb := client(t.Upstream)
	defer rdb.Close()
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		return s, err
	}
	info := parseInfo(text)
	s.By = "used_memory"
	if s.Bytes, err = strconv.ParseInt(info["used_memory"], 10, 64); err != nil {
		return s, fmt.Errorf("used_memory: %w", err)
	}
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, _ := strconv.ParseFloat(info[name], 64)
		s.CPU += time.Duration(seconds * float64(time.Second))
	}
	return s, nil
}
