package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/shadow/operate"
	"github.com/cinch-layer/cinch/internal/ui"
)

func newRecordCommand() *cobra.Command {
	var t operate.Tape
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Keep live traffic in an encrypted file, for replay",
		Long: `Keep live traffic in an encrypted file, for cinch replay. Clients connect to LISTEN and are passed through to production,
which never waits for the file: what can't be written in time is dropped, and its connection marked.

Logins are not recorded. With --redact, values of keys that match are replaced by bytes of their length, and commands
whose values can't be told are left out. The file is encrypted for the recipients of age, is readable by its owner alone,
and must not be there yet.

The first SIGINT or SIGTERM ends the recording with a whole file, while clients stay connected; the second ends the
process. docs/SHADOW.md says more.`,
		Example: `  cinch record --redis 127.0.0.1:6390=redis://cache.internal --to monday.cinchrec --recipient age1...
  cinch record --redis 127.0.0.1:6390=redis://cache.internal --to monday.cinchrec --recipients-file ops.txt --redact 'user:*'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := shadowSignals()
			defer stop()
			return t.Record(cmd.Context(), signals, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.Redis, "redis", "", "where clients connect and what production is, `LISTEN=URL`")
	f.StringVar(&t.To, "to", "", "`FILE` to write")
	f.StringArrayVar(&t.Recipients, "recipient", nil, "age `RECIPIENT` that can read the file (may be repeated)")
	f.StringArrayVar(&t.RecipientFiles, "recipients-file", nil, "`FILE` of age recipients (may be repeated)")
	f.BoolVar(&t.Plain, "no-encryption", false, "write what clients store as it is")
	f.StringArrayVar(&t.Redact, "redact", nil, "replace the values of keys that match `PATTERN` (may be repeated)")
	f.StringVar(&t.Limit, "limit", "1GiB", "`SIZE` of the file at which the recording ends")
	f.StringVar(&t.Memory, "memory", "128MiB", "`SIZE` of what may wait to be written")
	f.DurationVar(&t.Bound, "bound", time.Millisecond, "`TIME` for which recording may hold up 1 % of the traffic of a second before it ends")
	f.BoolVar(&t.Exit, "exit", false, "end with the recording, instead of passing clients through on")
	return cmd
}

// shadowSignals are what ends a run, and what turns it off.
func shadowSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGPIPE) // clients do not depend on who reads what is said
	return signals, func() { signal.Stop(signals) }
}

type replayOptions struct {
	shadowOptions
	identities []string
	speed      string
}

func newReplayCommand() *cobra.Command {
	o := replayOptions{shadowOptions: shadowOptions{exit: true}}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Drive a control and a test target from a recording, and judge the test",
		Long: `Drive two targets from a file of cinch record, and judge the test as cinch shadow does. Both targets should hold the data
that production had when the recording began. Nothing is dropped: what the targets can't take in time comes later.

With --test cinch=URL both are judged as they are first (A/A), with half of the recording at most, and then a Cinch
gateway with the given rules is put in front of the test target.

Exit codes: 0 PASS, 1 failed to run, 3 INCONCLUSIVE or VOID, 4 FAIL, 10 a server can't be reached.`,
		Example: `  cinch replay monday.cinchrec --identity key.txt --control redis://a.internal --test cinch=redis://b.internal --batch 5s
  cinch replay monday.cinchrec --identity key.txt --control redis://a.internal --test redis://b.internal --speed max`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signals, stop := shadowSignals()
			defer stop()
			return runReplay(cmd.Context(), o, args[0], signals, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addTargetFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&o.identities, "identity", nil, "`FILE` of age identities that can read the recording (may be repeated)")
	cmd.Flags().StringVar(&o.speed, "speed", "1", "`FACTOR` of the recorded pace, or max")
	return cmd
}

func runReplay(ctx context.Context, o replayOptions, name string, signals <-chan os.Signal, out, errs io.Writer) error {
	speed, err := operate.ParseSpeed(o.speed)
	if err != nil {
		return err
	}
	in, size, err := operate.OpenTape(name, o.identities)
	if err != nil {
		return err
	}
	defer in.Close()
	fmt.Fprintln(errs, size)
	o.servers.Tape = in.Protocol
	if _, err := o.configure(ctx, errs); err != nil {
		return err
	}
	page, err := operate.CreatePage(o.html)
	if err != nil {
		return err
	}
	r := shadow.New(o.cfg)
	if o.selfTest {
		if err := operate.SelfTest(ctx, r, signals); err != nil {
			return err
		}
	}
	if err := r.Replay(ctx, in.Reader, size, speed); err != nil {
		return ui.WithHint(err, "give the same --batch and margins, or another --state")
	}
	return verdictCode(o.watcher(r, signals, page, out, errs).Watch(nil))
}
