package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// splitServers takes the URL of several shards apart, tarantool://user:password@one,two,three: the
// first is the server that is meant, all are what tuples move between. Of one server all is nil.
func splitServers(rawURL string) (first string, all []string) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if !isTarantoolURL(rawURL) || !strings.Contains(rest, ",") {
		return rawURL, nil
	}
	user := ""
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i+1], rest[i+1:]
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		all = append(all, scheme+"://"+user+host)
	}
	return all[0], all
}

// newTarantoolGroup is the dictionaries of a server and of the shards that it belongs with: g says
// which, or the server is asked.
func newTarantoolGroup(conn *storetarantool.Conn, up gateway.Upstream, g *config.Gateway, local *dict.Set) (*storetarantool.Group, error) {
	shards := open.NewShards(up, conn, open.WalkTimeout)
	if err := shards.Name(g); err != nil {
		return nil, withCode(exitConfig, err)
	}
	return storetarantool.NewGroup(storetarantool.NewDicts(conn, local), storetarantool.GroupOptions{Find: shards.Find, Connect: shards.Connect}), nil
}

// notSharded reports that nobody may say who the shards are: then there may be none.
func notSharded(err error) bool {
	return errors.Is(err, storetarantool.ErrNoInit) || errors.Is(err, storetarantool.ErrDenied)
}

// runTarantoolSync puts every dictionary of the shards onto all of them.
func runTarantoolSync(ctx context.Context, out io.Writer, rawURL string) error {
	s, err := openTarantoolDicts(ctx, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.alone != nil {
		return ui.WithHint(s.failure(s.alone), "an administrator runs 'cinch tarantool init … --user NAME', or name the masters of all shards: tarantool://user:password@one,two,three")
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	copied, err := storetarantool.Spread(ctx, s.dicts(), func(d *codec.Dict, to int) {
		fmt.Fprintf(out, "%08x: put onto %s\n", d.Number(), s.members[to].Name)
	})
	if err != nil {
		return s.failure(err)
	}
	switch {
	case copied == 0 && len(s.members) == 1:
		fmt.Fprintln(out, "nothing to do: the server belongs to no group of shards, and replicas receive dictionaries by themselves")
	case copied == 0:
		fmt.Fprintf(out, "nothing to do: each of %d shards holds the same dictionaries\n", len(s.members))
	}
	return nil
}
