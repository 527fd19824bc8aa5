package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/cli"
)

func newShadowCommand() *cobra.Command {
	var o cli.Mirror
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Mirror live traffic to a control and a test target, and judge the test",
		Long: `Mirror live traffic to two targets, a control with the old configuration and a test with the new one, and judge
whether the test is as fast, gives the same answers and holds the same data. Clients connect to LISTEN and are passed
through to production, which answers them and never waits for the mirror: operations that the targets can't take are
dropped and counted.

PostgreSQL: statements go to the targets in production's order, those that write or lock one by one. Clients log in at
production; the mirror logs in at the targets with the user of their URLs, and the client's database and settings. Clients
that ask for TLS need --tls-cert and --tls-key; without these they are told that there is no TLS.

Both targets should hold production's data when the run begins: replicas that were promoted, or a restored backup.
With --test cinch=URL both targets are first measured as they are (A/A phase). Then a Cinch gateway with the given rules
is put in front of the test target.

Before the run a self-test plants a slowdown, a wrong answer, a lost write and a drop in the path to the test target, on
its own key, and must detect each.

Signals: the first SIGINT or SIGTERM lets the targets finish and prints the verdict so far, while clients stay connected.
A second one before the report prints it without waiting for the targets, and ends the process. Any after the report ends
the process. SIGUSR1, or the file of --off-file, turns the mirror off at once. docs/SHADOW.md says how a verdict is made.

Exit codes: 0 PASS, 1 failed, 2 the command line is wrong, 3 INCONCLUSIVE or VOID, 4 FAIL, 10 a server can't be used.`,
		Example: `  cinch shadow --redis 127.0.0.1:6390=redis://cache.internal --control redis://a.internal --test cinch=redis://b.internal
  cinch shadow --redis 127.0.0.1:6390=redis://cache.internal --control redis://old.internal --test redis://new.internal --reads 0.1
  cinch shadow --mongo 127.0.0.1:27018=mongodb://db.internal --control mongodb://a.internal --test cinch=mongodb://b.internal
  cinch shadow --postgres 127.0.0.1:5433=postgres://db.internal --control postgres://shadow@a.internal --test postgres://shadow@b.internal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := shadowSignals()
			defer stop()
			return verdictCode(o.Run(cmd.Context(), signals, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	addShadowFlags(cmd.Flags(), &o)
	cmd.AddCommand(newShadowCheckCommand())
	return cmd
}

// addShadowFlags adds the flags that check has too.
func addShadowFlags(f *pflag.FlagSet, o *cli.Mirror) {
	addListenerFlags(f, &o.Servers.Listeners, &o.TLS)
	addTargetFlags(f, o)
	f.DurationVar(&o.Config.Bound, "bound", time.Millisecond, "turn the mirror off when it delays more than 1 % of a second's traffic for longer than `TIME`")
	f.StringVar(&o.OffFile, "off-file", "", "turn the mirror off when this `FILE` exists")
	f.StringVar(&o.Page.Listen, "admin", "off", "`ADDR` of a page with the report so far, /metrics and a switch that turns the mirror off")
	f.StringVar(&o.Page.TokenFile, "admin-token-file", "", "`FILE` with the token, required for the switch and, off loopback, for reading")
	f.BoolVar(&o.Exit, "exit", false, "end when there is a verdict, instead of still passing clients through")
}

// addListenerFlags adds the flags that record has too.
func addListenerFlags(f *pflag.FlagSet, l *cli.Listeners, tls *endpoint.TLSFiles) {
	f.StringVar(&l.Redis, "redis", "", "where clients connect and where production is, `LISTEN=URL`")
	f.StringVar(&l.Mongo, "mongo", "", "where clients connect and where production is, `LISTEN=URI`: one server; clients connect with directConnection=true")
	f.StringVar(&l.Postgres, "postgres", "", "where clients connect and where production is, `LISTEN=URL`; the URL's sslmode says whether to use TLS")
	f.StringVar(&tls.Cert, "tls-cert", "", "`FILE` with the certificate for clients that ask for TLS (PostgreSQL)")
	f.StringVar(&tls.Key, "tls-key", "", "`FILE` with the certificate's key")
}

// addTargetFlags adds the flags that replay has too.
func addTargetFlags(f *pflag.FlagSet, o *cli.Mirror) {
	f.StringVar(&o.Servers.Control, "control", "", "`URL` of the control target, with its own credentials")
	f.StringVar(&o.Servers.Test, "test", "", "`URL` of the test target, or cinch=URL to judge a gateway in front of it")
	f.StringArrayVar(&o.Rules, "rule", nil, "a rule of the gateway that --test cinch=URL starts, as for serve (may be repeated)")
	f.Float64Var(&o.Config.Reads, "reads", 0, "`SHARE` of the reads to mirror, above 0 and up to 1 (default: 1, with --postgres 0.01)")
	f.Float64Var(&o.Config.Margins.P50, "margin-p50", 0.05, "`SHARE` by which the median latency may grow")
	f.Float64Var(&o.Config.Margins.P99, "margin-p99", 0.10, "`SHARE` by which the 99th percentile of latency may grow")
	f.DurationVar(&o.Config.Margins.Absolute, "margin-absolute", 0, "`TIME` by which median and 99th percentile may always grow, such as 20us (default: none)")
	f.DurationVar(&o.Config.Batch, "batch", 30*time.Second, "`TIME` of a batch")
	f.IntVar(&o.Config.Baseline, "baseline", 0, "number of `BATCHES` of the A/A phase (default: as many as a verdict needs)")
	f.IntVar(&o.Config.Batches, "batches", 0, "number of `BATCHES` after which the run ends without a verdict (default: no limit)")
	f.StringVar(&o.Config.State, "state", "", "keep the observations in `FILE`, and continue from those in it")
	f.BoolVar(&o.Config.BaselineOnly, "baseline-only", false, "make the A/A phase of a run that continues from --state: both targets have the old configuration")
	o.Config.DataCheck = shadow.DataSample
	f.Var(&o.Config.DataCheck, "data-check", "compare the targets' data at the end: off, sample or full (PostgreSQL)")
	f.DurationVar(&o.Config.DataTime, "data-check-time", 10*time.Minute, "most `TIME` for the comparison of data")
	f.BoolVar(&o.Config.DataProduction, "data-check-production", false, "compare the targets' data with production's, too: no client may write to production meanwhile")
	f.StringArrayVar(&o.Config.Ignore, "ignore-column", nil, "leave `SCHEMA.TABLE.COLUMN` out of the comparison, for columns that always differ (PostgreSQL; may be repeated)")
	f.StringArrayVar(&o.Config.Databases, "only-database", nil, "mirror only clients of the database `NAME`; others are passed through and counted (PostgreSQL; may be repeated)")
	f.BoolVar(&o.Config.AllowForeign, "allow-foreign-servers", false, "mirror even if targets have foreign servers or extensions such as dblink, where writes would be repeated (PostgreSQL)")
	f.StringVar(&o.Memory, "memory", "128MiB", "`SIZE` of the buffer for operations that wait for the targets")
	f.StringArrayVar(&o.Storage, "storage-command", nil, "`TARGET=COMMAND` that prints how many bytes control or test take on disk (default: measured, if the files are on this machine)")
	f.BoolVar(&o.SelfTest, "self-test", true, "detect planted faults first; the report says if this was skipped")
	f.StringVar(&o.HTML, "html", "", "write the report as a page with plots to `FILE`")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
}

func newShadowCheckCommand() *cobra.Command {
	var o cli.Mirror
	var probe time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List the problems that block a run, and how long it will take",
		Long: `Report on a run before you begin it: versions, settings of the targets that differ, missing data, the load that the
targets can take, the time until a verdict and the smallest difference that it would detect. Clients are not served.
Production is only queried; on the targets the check reads and writes its own key, which it removes.

Exit codes: 0 no problem blocks a run, 1 failed, 2 the command line is wrong, 3 a problem blocks it,
10 a server can't be used.`,
		Example: `  cinch shadow check --redis 127.0.0.1:6390=redis://cache.internal --control redis://a.internal --test redis://b.internal`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			problems, err := o.Check(cmd.Context(), probe, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err == nil && problems > 0 {
				err = withCode(exitSkipped, fmt.Errorf("%d of these problems block a run", problems))
			}
			return err
		},
	}
	addShadowFlags(cmd.Flags(), &o)
	cmd.Flags().DurationVar(&probe, "probe", 20*time.Second, "`TIME` to measure the targets' noise")
	return cmd
}

// verdictCode adds the exit code to a watcher's error.
func verdictCode(err error) error {
	switch {
	case errors.Is(err, cli.ErrFail):
		return withCode(exitDifference, err)
	case errors.Is(err, cli.ErrNoVerdict):
		return withCode(exitSkipped, err)
	}
	return err
}
