package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/rollout"
)

func newRolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Move a PostgreSQL cell to new nodes, one by one, under load",
		Long: `Move a PostgreSQL cell (a primary and its standbys) to new nodes, for instance with a compressed filesystem. Each new node
gets a base backup, catches up, is compared with the primary, and takes an old node's place: standbys first, the primary
last. Clients wait in 'cinch serve --postgres' meanwhile. Old nodes are stopped and kept. docs/ROLLOUT.md describes the
cell's file, and what happens when a node or process fails.

You can stop 'run' at any time; the next 'run' continues. Until the new primary is promoted, 'abort' undoes the current
node's replacement.

The first Ctrl-C undoes a switchover, or finishes it if the promotion has begun; the second one ends the process at once.

Exit codes: 0 ok, 1 failed, 3 a node waits to be confirmed, or a problem blocks the roll-out (such as a server that does
not answer), 11 the cell's file is invalid.`,
		Example: `  cinch rollout run orders.yaml --dry-run
  cinch rollout run orders.yaml
  cinch rollout confirm orders.yaml`,
	}
	cmd.AddCommand(newRolloutRunCommand(), newRolloutStatusCommand(),
		rolloutAction("confirm", "Confirm that the old node that was replaced last is no longer needed", func(_ context.Context, r *rollout.Rollout) error { return r.Confirm() }),
		rolloutAction("abort", "Undo the replacement of the current node", func(ctx context.Context, r *rollout.Rollout) error { return r.Abort(ctx) }))
	return cmd
}

func newRolloutRunCommand() *cobra.Command {
	var r rollout.Rollout
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:     "run CELL.yaml",
		Short:   "Begin a roll-out, or continue it",
		Example: "  cinch rollout run orders.yaml --yes\n  cinch rollout run orders.yaml --dry-run --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if r.Cell, err = rollout.ReadCell(args[0]); err != nil {
				return withCode(exitConfig, err)
			}
			if dry {
				return planRollout(cmd, &r, asJSON)
			}
			r.Tell = eventPrinter(cmd)
			ctx, stop := cancelOnSignal(cmd.Context())
			defer stop()
			return endRollout(cmd, r.Cell, asJSON, r.Run(ctx))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state at the end as JSON, as status does; with --dry-run the plan")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be done, with commands and sizes")
	cmd.Flags().BoolVar(&r.Yes, "yes", false, "go on to the next node without cinch rollout confirm")
	cmd.Flags().BoolVar(&r.DestroyOld, "destroy-old", false, "remove the data of nodes whose replacement has been confirmed")
	return cmd
}

// cancelOnSignal returns a context that the first signal cancels, so that a switch-over is finished or undone. The
// second signal ends the process. A closed terminal cancels the context, too. A closed output pipe is ignored: Ctrl-C
// also kills a tee that reads the output, and the switch-over has to be finished or undone all the same.
func cancelOnSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		for s := range signals {
			if s == syscall.SIGPIPE {
				continue
			}
			if cancel(); s != syscall.SIGHUP { // shell and kernel send one SIGHUP each
				signal.Reset(syscall.SIGINT, syscall.SIGTERM)
			}
		}
	}()
	return ctx, cancel
}

func planRollout(cmd *cobra.Command, r *rollout.Rollout, asJSON bool) error {
	plan := r.Plan
	if asJSON {
		plan = r.PlanJSON
	}
	problems, err := plan(cmd.Context(), cmd.OutOrStdout())
	if err == nil && problems > 0 {
		err = withCode(exitSkipped, fmt.Errorf("%d problems block the roll-out", problems))
	}
	return rolloutCode(err)
}

func newRolloutStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status CELL.yaml",
		Short:   "Show the progress of a roll-out",
		Example: "  cinch rollout status orders.yaml --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := rollout.ReadCell(args[0])
			if err != nil {
				return withCode(exitConfig, err)
			}
			s, err := c.ReadState()
			if err == nil && s == nil {
				err = terminal.WithHint(errors.New("no roll-out has begun"), "cinch rollout run %s --dry-run", args[0])
			}
			if err != nil {
				return err
			}
			s.Look(cmd.Context(), c)
			if !asJSON {
				return s.Text(cmd.OutOrStdout())
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state with all actions as JSON")
	return cmd
}

// endRollout prints the state as JSON if requested, even if the roll-out failed: its last action tells why.
func endRollout(cmd *cobra.Command, c *rollout.Cell, asJSON bool, err error) error {
	if asJSON {
		if printed := c.PrintState(cmd.OutOrStdout()); err == nil {
			err = printed
		}
	}
	return rolloutCode(err)
}

func rolloutAction(name, short string, do func(context.Context, *rollout.Rollout) error) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: name + " CELL.yaml", Short: short, Example: "  cinch rollout " + name + " orders.yaml", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := rollout.ReadCell(args[0])
			if err != nil {
				return withCode(exitConfig, err)
			}
			ctx, stop := cancelOnSignal(cmd.Context())
			defer stop()
			return endRollout(cmd, c, asJSON, do(ctx, &rollout.Rollout{Cell: c, Tell: eventPrinter(cmd)}))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the state as JSON, as status does")
	return cmd
}

// eventPrinter returns a function that prints events with the time.
func eventPrinter(cmd *cobra.Command) func(node, text string) {
	return func(node, text string) {
		terminal.Note(cmd.ErrOrStderr(), "%s %-8s %s\n", time.Now().Format(time.TimeOnly), node, text)
	}
}

// rolloutCode adds the exit code and the next step to a roll-out's error.
func rolloutCode(err error) error {
	switch {
	case errors.Is(err, rollout.ErrUnconfirmed):
		return withCode(exitSkipped, terminal.WithHint(err, "check the new node, then run cinch rollout confirm and cinch rollout run; or cinch rollout abort"))
	case errors.Is(err, rollout.ErrCheck):
		return withCode(exitSkipped, err)
	case errors.Is(err, rollout.ErrGate) && terminal.Hint(err) == "":
		return terminal.WithHint(err, "the cell is unchanged: cinch rollout run checks again, cinch rollout abort gives the new node up")
	}
	return err
}
