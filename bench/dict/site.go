package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/rig"
)

// site is a gateway with a server of its own.
type site struct {
	server, gateway *rig.Process
	direct, through *redis.Client
}

const (
	ruleAuto  = "rules: [{name: docs, key: 'doc:*', setting: zstd-3, dictionary: auto}]"
	rulePlain = "rules: [{name: docs, key: 'doc:*', setting: zstd-3}]"
)

// site starts server and gateway. top is top-level YAML for the gateway's process.
func (o *options) site(top, rules string) (*site, error) {
	server, err := rig.Redis(o.work)
	if err != nil {
		return nil, err
	}
	gateway, err := rig.Gateway(o.cinch, o.work, server, top, rules)
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &site{server, gateway, server.Client(), gateway.Client()}, nil
}

func (s *site) stop() {
	_, _ = s.direct.Close(), s.through.Close()
	s.gateway.Stop()
	s.server.Stop()
}

// page is the number of commands per pipeline.
const page = 250

// set writes values under keys numbered from `from`.
func (s *site) set(prefix string, from int, values [][]byte) error {
	for at := 0; at < len(values); at += page {
		_, err := s.through.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := at; i < min(at+page, len(values)); i++ {
				p.Set(context.Background(), key(prefix, from+i), values[i], 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func key(prefix string, i int) string { return fmt.Sprintf("doc:%s:%d", prefix, i) }

// check reads the values through the gateway and compares them.
func (s *site) check(prefix string, from int, values [][]byte) error {
	for at := 0; at < len(values); at += page {
		var got []*redis.StringCmd
		_, err := s.through.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := at; i < min(at+page, len(values)); i++ {
				got = append(got, p.Get(context.Background(), key(prefix, from+i)))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, g := range got {
			if !bytes.Equal([]byte(g.Val()), values[at+i]) {
				return fmt.Errorf("%s was read back different", key(prefix, from+at+i))
			}
		}
	}
	return nil
}

// holding holds the sizes of values in a server.
type holding struct {
	values int
	stored int64 // bytes in place of the values
	keys   int64 // MEMORY USAGE of their keys
	byDict map[uint32]int
}

// holding asks the server, not the gateway, for the sizes of n keys.
func (s *site) holding(prefix string, from, n int) (h holding, err error) {
	ctx := context.Background()
	h = holding{values: n, byDict: map[uint32]int{}}
	for at := from; at < from+n; at += page {
		var lengths, memory []*redis.IntCmd
		var headers []*redis.StringCmd
		_, err := s.direct.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := at; i < min(at+page, from+n); i++ {
				k := key(prefix, i)
				lengths, memory = append(lengths, p.StrLen(ctx, k)), append(memory, p.MemoryUsage(ctx, k))
				headers = append(headers, p.GetRange(ctx, k, 0, int64(envelope.MaxHeaderLen)-1))
			}
			return nil
		})
		if err != nil {
			return h, err
		}
		for i := range lengths {
			h.stored += lengths[i].Val()
			h.keys += memory[i].Val()
			number := uint32(0)
			if header, err := envelope.ParseHeader([]byte(headers[i].Val())); err == nil {
				number = header.Dict
			}
			h.byDict[number]++
		}
	}
	return h, nil
}

// await calls write until the gateway's log contains a text the given number of times.
func (s *site) await(text string, times int, write func() error) error {
	for deadline := time.Now().Add(5 * time.Minute); strings.Count(s.gateway.Output(), text) < times; {
		if time.Now().After(deadline) {
			return fmt.Errorf("the gateway's log lacks %q:\n%s", text, s.gateway.Output())
		}
		if err := write(); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// dictionaries returns the sizes, in bytes, of the server's dictionaries by number.
func (s *site) dictionaries() (map[uint32]int, error) {
	infos, err := storeredis.NewDicts(storeredis.DictsOptions{Client: s.direct}).List(context.Background())
	all := map[uint32]int{}
	for _, i := range infos {
		all[i.Number] = i.Bytes
	}
	return all, err
}
