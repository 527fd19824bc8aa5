package rig

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// UsedMemory returns the server's used_memory once client's connection is the only one and the memory of
// closed ones has been freed. The result is the same in each run up to a few hundred bytes.
func UsedMemory(client *redis.Client) (int64, error) {
	last, same := int64(0), 0
	for range 200 {
		open, err := InfoNumber(client, "clients", "connected_clients")
		if err != nil {
			return 0, err
		}
		used, err := InfoNumber(client, "memory", "used_memory")
		if err != nil {
			return 0, err
		}
		if same++; open > 1 || used != last {
			same = 0
		}
		if same == 5 {
			return used, nil
		}
		last = used
		time.Sleep(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("used_memory does not settle")
}

// InfoNumber returns a number from a section of INFO.
func InfoNumber(client *redis.Client, section, name string) (int64, error) {
	text, err := client.Info(context.Background(), section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, name)
}

// AwaitDictionary writes values until one is compressed with the dictionary: the gateway first stores the
// dictionary in the server, and compresses without it until then.
func AwaitDictionary(client *redis.Client, server *Process) error {
	direct := server.Client()
	defer direct.Close()
	ctx := context.Background()
	probe := bytes.Repeat([]byte("a value to be sealed, "), 40)
	for range 1000 {
		if err := client.Set(ctx, "probe", probe, 0).Err(); err != nil {
			return err
		}
		stored, err := direct.Get(ctx, "probe").Bytes()
		if err != nil {
			return err
		}
		if len(stored) > 4 && stored[4]&0x80 != 0 { // docs/FORMAT.md: the envelope names a dictionary
			return direct.Del(ctx, "probe").Err()
		}
	}
	return fmt.Errorf("the gateway does not use the dictionary")
}
