package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/pack"
	"github.com/cinch-layer/cinch/internal/store/pack/output"
)

// showSharedRuns prints the progress of the workers of cinch pack and unpack, from the directory of their state files.
func showSharedRuns(out io.Writer, dir string, asJSON bool) error {
	runs, err := pack.ReadSharedRuns(dir)
	switch {
	case errors.Is(err, pack.ErrNoState):
		return terminal.WithHint(err, "give the directory that 'cinch pack --state' got, where each worker has a file")
	case err != nil:
		return err
	case asJSON:
		return json.NewEncoder(out).Encode(map[string]any{"time": time.Now().UTC(), "runs": runs})
	}
	return output.SharedRuns(out, runs, time.Now())
}

// watchSharedRuns prints the progress at each interval, and on a terminal replaces what it printed before.
func watchSharedRuns(ctx context.Context, o topOptions, counted bool) error {
	onTerminal := terminal.IsTerminal(o.out)
	if !onTerminal && !o.asJSON && !counted {
		o.count = 1
	}
	for n := 1; ; n++ {
		if onTerminal && !o.asJSON {
			fmt.Fprint(o.out, "\033[H\033[J") // to the top, and clear the rest
		}
		if err := showSharedRuns(o.out, o.packState, o.asJSON); err != nil || n == o.count {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.every):
		}
	}
}
