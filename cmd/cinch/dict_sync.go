package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/store/open"
)

func newDictSyncCommand() *cobra.Command {
	var m copiedDicts
	cmd := &cobra.Command{
		Use:   "sync URL",
		Short: "Put every dictionary of a cluster onto all of its primaries",
		Long: `Put every dictionary that any primary of a cluster holds onto those that lack it, archived ones into their archive.
The URL of any node will do. For Tarantool that is any storage or router of vshard; where it can't be asked, name the
masters of all shards.

Moving a slot to another node does not copy the dictionaries of its values. 'redis-cli --cluster add-node' copies
dictionaries to a new node. With other tools run this after a node has joined, before slots are moved to it. It is
harmless at any other time.`,
		Example: `  cinch dict sync redis://node1.internal:6379
  cinch dict sync tarantool://cinch:secret@storage1.internal:3301
  cinch dict sync tarantool://cinch:secret@storage1.internal,storage2.internal,storage3.internal`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.out = cmd.OutOrStdout()
			return m.end(runDictSync(cmd.Context(), &m, args[0]))
		},
	}
	m.jsonFlag(cmd)
	return cmd
}

func runDictSync(ctx context.Context, m *copiedDicts, rawURL string) error {
	s, err := open.OpenAccess(ctx, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	nothing, err := s.DictAdmin().Spread(ctx, func(number uint32, node string) {
		m.add(copiedDict{Number: fmt.Sprintf("%08x", number), To: node}, "put onto")
	})
	if nothing != "" {
		m.none("nothing to do: " + nothing)
	}
	return err
}
