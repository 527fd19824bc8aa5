package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/cli"
)

func newRecordCommand() *cobra.Command {
	var t cli.Recording
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Keep live traffic in an encrypted file, for replay",
		Long: `Keep live traffic in an encrypted file, for cinch replay. Clients connect to LISTEN and are passed through to production,
which never waits for the file: what can't be written in time is dropped, and its connection marked.

The file is encrypted with age for its recipients, and readable by its owner alone. It must not exist yet. Logins are not
recorded. With --redact, values of matching keys (MongoDB: of collections, as shop.users or shop.*) are replaced by others
of the same length, and commands whose values can't be identified are left out.

The first SIGINT or SIGTERM ends the recording with a whole file, while clients stay connected; one after that ends the
process. docs/SHADOW.md has the details.

Exit codes: 0 ended, 1 failed, 2 the command line is wrong, 10 production can't be used.`,
		Example: `  cinch record --redis 127.0.0.1:6390=redis://cache.internal --to monday.cinchrec --recipient age1...
  cinch record --redis 127.0.0.1:6390=redis://cache.internal --to monday.cinchrec --recipients-file ops.txt --redact 'user:*'
  cinch record --mongo 127.0.0.1:27018=mongodb://db.internal --to monday.cinchrec --recipient age1... --redact 'shop.users'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := shadowSignals()
			defer stop()
			if asJSON {
				t.JSON = cmd.OutOrStdout()
			}
			return t.Record(cmd.Context(), signals, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	addListenerFlags(f, &t.Listeners, &t.TLS)
	f.StringVar(&t.To, "to", "", "`FILE` to write")
	f.StringArrayVar(&t.Recipients, "recipient", nil, "age `RECIPIENT` that can read the file (may be repeated)")
	f.StringArrayVar(&t.RecipientFiles, "recipients-file", nil, "`FILE` of age recipients (may be repeated)")
	f.BoolVar(&t.Plain, "no-encryption", false, "write what clients store unredacted")
	f.StringArrayVar(&t.Redact, "redact", nil, "replace the values of keys, or of MongoDB's collections, that match `PATTERN` (may be repeated)")
	f.StringVar(&t.Limit, "limit", "1GiB", "`SIZE` of the file at which the recording ends")
	f.StringVar(&t.Memory, "memory", "128MiB", "`SIZE` of the buffer for data not yet written")
	f.DurationVar(&t.Bound, "bound", time.Millisecond, "end the recording when it delays more than 1 % of a second's traffic for longer than `TIME`")
	f.BoolVar(&asJSON, "json", false, "print what was recorded as JSON, when the recording has ended")
	f.BoolVar(&t.Exit, "exit", false, "end with the recording, instead of still passing clients through")
	return cmd
}

// shadowSignals returns the signals that end a run or turn it off.
func shadowSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGPIPE) // a closed output pipe must not affect clients
	return signals, func() { signal.Stop(signals) }
}
