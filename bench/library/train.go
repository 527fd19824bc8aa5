package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/bench/corpora"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/rig"
)

// dictionary describes the dictionary that a gateway has made.
type dictionary struct {
	Number uint32 `json:"number"`
	Bytes  int    `json:"bytes"`
}

// gateway starts a gateway with the default rule of `cinch serve`, except for the setting.
func (o *options) gateway(upstream *rig.Process) (*rig.Process, error) {
	return rig.Gateway(o.cinch, o.work, upstream, "training: "+o.training, "rules: [{name: all, setting: "+o.setting+", dictionary: auto}]")
}

// train has a gateway make a dictionary, in front of a store that already holds records: they determine how
// large a dictionary may be. The trained servers start with the dictionary and policy that the store then
// holds.
func (o *options) train(d *data) error {
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	direct := server.Client()
	defer direct.Close()
	copies := max(1, o.fill/corpora.TotalBytes(d.learn))
	for i := range copies {
		if err := setAll(direct, fmt.Sprintf("before:%d", i), d.learn); err != nil {
			return err
		}
	}
	if err := o.learn(server, d.learn); err != nil {
		return err
	}
	if d.Dictionary, err = onlyDictionary(direct); err != nil {
		return err
	}
	if d.dump, err = dump(direct, filepath.Join(o.work, d.Name+".rdb")); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: dictionary %08x of %d bytes\n", d.Name, d.Dictionary.Number, d.Dictionary.Bytes)
	return nil
}

// learn writes values through a gateway again and again, as an application does, until a dictionary exists.
func (o *options) learn(server *rig.Process, values [][]byte) error {
	g, err := o.gateway(server)
	if err != nil {
		return err
	}
	defer g.Stop()
	through := g.Client()
	defer through.Close()
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(g.Output(), "dictionary rolled out"); {
		if time.Now().After(deadline) {
			return fmt.Errorf("no dictionary was trained:\n%s", g.Output())
		}
		if err := setAll(through, "learn", values); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// batch is the number of SETs per pipeline: a gateway that trains answers slowly.
const batch = 50

func setAll(client *redis.Client, prefix string, values [][]byte) error {
	for first := 0; first < len(values); first += batch {
		_, err := client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := first; i < min(first+batch, len(values)); i++ {
				p.Set(context.Background(), fmt.Sprintf("%s:%d", prefix, i), values[i], 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func onlyDictionary(direct *redis.Client) (dictionary, error) {
	all, err := storeredis.NewDicts(storeredis.DictsOptions{Client: direct}).List(context.Background())
	if err != nil {
		return dictionary{}, err
	}
	if len(all) != 1 {
		return dictionary{}, fmt.Errorf("expected one dictionary, got %d", len(all))
	}
	return dictionary{all[0].Number, all[0].Bytes}, nil
}

// dump deletes all keys of a server and saves the rest, which is functions, to a file.
func dump(direct *redis.Client, to string) (string, error) {
	ctx := context.Background()
	if err := direct.FlushAll(ctx).Err(); err != nil {
		return "", err
	}
	if err := direct.Save(ctx).Err(); err != nil {
		return "", err
	}
	dir, err := direct.ConfigGet(ctx, "dir").Result()
	if err != nil {
		return "", err
	}
	return to, os.Rename(filepath.Join(dir["dir"], "dump.rdb"), to)
}

// trainedServer starts a server that has the corpus's dictionary and policy.
func (o *options) trainedServer(d *data) (*rig.Process, error) {
	dir, err := os.MkdirTemp(o.work, "trained-")
	if err != nil {
		return nil, err
	}
	if err := os.Link(d.dump, filepath.Join(dir, "dump.rdb")); err != nil {
		return nil, err
	}
	return rig.Redis(o.work, "--dir", dir)
}
