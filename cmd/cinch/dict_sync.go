package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/pack"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/internal/ui"
)

func newDictSyncCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sync URL",
		Short: "Put every dictionary of a cluster onto all of its primaries",
		Long: `Put every dictionary that any primary of a cluster holds onto those that lack it, archived ones into their archive.
The URL of any node will do. For Tarantool that is any storage or router of vshard; where it can't be asked, name the
masters of all shards.

Values take no dictionary along when their slot moves. 'redis-cli --cluster add-node' copies functions, and with them
dictionaries, to the new node; with other tools run this after a node has joined, before slots are moved to it. It does
no harm at any other time.`,
		Example: `  cinch dict sync redis://node1.internal:6379
  cinch dict sync tarantool://cinch:secret@storage1.internal:3301
  cinch dict sync tarantool://cinch:secret@storage1.internal,storage2.internal,storage3.internal`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDictSync(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
}

func runDictSync(ctx context.Context, out io.Writer, rawURL string) error {
	if isTarantoolURL(rawURL) {
		return runTarantoolSync(ctx, out, rawURL)
	}
	o := whereOptions{}
	if err := o.take([]string{rawURL}); err != nil {
		return err
	}
	w, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	held, err := storeredis.Held(ctx, w.nodes.nodes)
	if err != nil {
		return w.failure(err)
	}
	copied, err := storeredis.Spread(ctx, w.nodes.nodes, held, w.nodes.Dictionary, func(d *codec.Dict, node int) {
		fmt.Fprintf(out, "%08x: put onto %s\n", d.Number(), w.store.Nodes()[node].Name())
	})
	if err != nil {
		return w.failure(err)
	}
	switch {
	case copied == 0 && len(held) == 1:
		fmt.Fprintln(out, "nothing to do: there is one primary")
	case copied == 0:
		fmt.Fprintf(out, "nothing to do: each of %d primaries holds the same dictionaries\n", len(held))
	}
	return nil
}

// lacking lists the nodes of a cluster without a dictionary that values of the cluster
// name: readers that ask a value's own node alone, or another cluster that the node is
// restored to, would not find it.
func (w *where) lacking(ctx context.Context, r *pack.Report) (missing []string, err error) {
	if w.tuples != nil {
		return w.lackingShards(ctx, r)
	}
	if !w.store.Cluster() {
		return nil, nil
	}
	held, err := storeredis.Held(ctx, w.nodes.nodes)
	if err != nil {
		return nil, w.failure(err)
	}
	for _, number := range namedBy(r) {
		for i, of := range held {
			if _, there := of[number]; !there {
				missing = append(missing, fmt.Sprintf("%s lacks dictionary %08x, which values of the cluster name", w.store.Nodes()[i].Name(), number))
			}
		}
	}
	return missing, nil
}

// namedBy lists the dictionaries that values were found to name.
func namedBy(r *pack.Report) (numbers []uint32) {
	for _, setting := range slices.Sorted(maps.Keys(r.Opens)) {
		_, text, named := strings.Cut(setting, "@")
		if number, err := strconv.ParseUint(text, 16, 32); named && err == nil {
			numbers = append(numbers, uint32(number))
		}
	}
	return numbers
}

// lackingError says what to do about it.
func (w *where) lackingError(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return withCode(exitDictMissing, ui.WithHint(errors.New(strings.Join(missing, "; ")), "cinch dict sync, with the URL of any node, puts it there"))
}
