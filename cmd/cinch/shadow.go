package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/shadow/operate"
	"github.com/cinch-layer/cinch/internal/ui"
)

type shadowOptions struct {
	servers  operate.Servers
	tls      gateway.TLSFiles // for clients
	rules    []string
	cfg      shadow.Config
	memory   string
	limit    config.Bytes
	json     bool
	html     string // file
	selfTest bool
	exit     bool // when there is a verdict
	offFile  string
}

func newShadowCommand() *cobra.Command {
	var o shadowOptions
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Mirror live traffic to a control and a test target, and judge the test",
		Long: `Mirror live traffic to two targets, a control with the old configuration and a test with the new one, and judge
whether the test is as fast, answers alike and holds the same data. Clients connect to LISTEN and are passed through to
production, which answers them and never waits for the mirror: what the targets can't take is dropped and counted.

PostgreSQL: statements go to the targets in production's order, those that write or lock one by one. Clients log in at
production; at the targets the URL's user does, with the client's database and settings. --tls-cert and --tls-key are for
clients that ask for TLS; without them clients are told that there is none.

Both targets should hold production's data when the run begins: replicas that were promoted, or a restored backup.
With --test cinch=URL both are judged as they are first (A/A), and then a Cinch gateway with the given rules is put in
front of the test target.

Before the run a self-test plants a slowdown, a wrong answer, a lost write and a drop in the path to the test target, in
a key of its own, and must find each.

The first SIGINT or SIGTERM ends the mirror and prints the verdict so far, while clients stay connected; the second
ends the process. SIGUSR1, or a file where --off-file says, turns the mirror off at once. docs/SHADOW.md says what is
mirrored and how a verdict is made.

Exit codes: 0 PASS, 1 failed to run, 3 INCONCLUSIVE or VOID, 4 FAIL, 10 a server can't be reached.`,
		Example: `  cinch shadow --redis 127.0.0.1:6390=redis://cache.internal --control redis://a.internal --test cinch=redis://b.internal
  cinch shadow --redis 127.0.0.1:6390=redis://cache.internal --control redis://old.internal --test redis://new.internal --reads 0.1
  cinch shadow --mongo 127.0.0.1:27018=mongodb://db.internal --control mongodb://a.internal --test cinch=mongodb://b.internal
  cinch shadow --postgres 127.0.0.1:5433=postgres://db.internal --control postgres://shadow@a.internal --test postgres://shadow@b.internal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := shadowSignals()
			defer stop()
			return runShadow(cmd.Context(), o, signals, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.AddCommand(newShadowCheckCommand())
	return cmd
}

// addFlags adds those that check has too.
func (o *shadowOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.servers.Redis, "redis", "", "where clients connect and what production is, `LISTEN=URL`")
	f.StringVar(&o.servers.Mongo, "mongo", "", "where clients connect and what production is, `LISTEN=URI`: one server, which clients reach with directConnection=true")
	f.StringVar(&o.servers.Postgres, "postgres", "", "where clients connect and what production is, `LISTEN=URL`; the URL's sslmode says whether it is reached by TLS")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "`FILE` with the certificate for clients that ask for TLS (PostgreSQL)")
	f.StringVar(&o.tls.Key, "tls-key", "", "`FILE` with its key")
	o.addTargetFlags(f)
	f.DurationVar(&o.cfg.Bound, "bound", time.Millisecond, "`TIME` for which the mirror may hold up 1 % of the traffic of a second before it turns itself off")
	f.StringVar(&o.offFile, "off-file", "", "turn the mirror off when this `FILE` is there")
	f.BoolVar(&o.exit, "exit", false, "end when there is a verdict, instead of passing clients through on")
}

// addTargetFlags adds those that replay has too.
func (o *shadowOptions) addTargetFlags(f *pflag.FlagSet) {
	f.StringVar(&o.servers.Control, "control", "", "`URL` of the control target, with its own credentials")
	f.StringVar(&o.servers.Test, "test", "", "`URL` of the test target, or cinch=URL to judge a gateway in front of it")
	f.StringArrayVar(&o.rules, "rule", nil, "a rule of the gateway that --test cinch=URL starts, as for serve (may be repeated)")
	f.Float64Var(&o.cfg.Reads, "reads", 0, "`SHARE` of the reads that are mirrored, above 0 to 1 (default: 1, with --postgres 0.01)")
	f.Float64Var(&o.cfg.Margins.P50, "margin-p50", 0.05, "`SHARE` by which the median may grow")
	f.Float64Var(&o.cfg.Margins.P99, "margin-p99", 0.10, "`SHARE` by which the 99th percentile may grow")
	f.DurationVar(&o.cfg.Batch, "batch", 30*time.Second, "`TIME` of a batch")
	f.IntVar(&o.cfg.Baseline, "baseline", 0, "`BATCHES` of the A/A phase (default: as many as a verdict needs)")
	f.IntVar(&o.cfg.Batches, "batches", 0, "`BATCHES` after which the run ends without a verdict (default: none)")
	f.StringVar(&o.cfg.State, "state", "", "keep what is observed in `FILE`, and go on from what is there")
	f.BoolVar(&o.cfg.BaselineOnly, "baseline-only", false, "make the A/A phase of a run that goes on from --state: both targets have the old configuration")
	f.StringVar(&o.memory, "memory", "128MiB", "`SIZE` of what may wait for the targets")
	f.BoolVar(&o.selfTest, "self-test", true, "find planted faults first; the report says when it was not done")
	f.StringVar(&o.html, "html", "", "write the report as a page with plots to `FILE`")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
}

func newShadowCheckCommand() *cobra.Command {
	var o shadowOptions
	var probe time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what a run would meet, before it",
		Long: `Say what a run would meet: versions, settings of the targets that differ, data that is missing, what the targets can
take, how long a verdict will need and the smallest difference that it would see. Clients are not served. Production is
only asked; the targets get reads and writes of a key of the tool's own, which is removed.

Exit codes: 0 nothing stands in the way, 3 something does, 10 a server can't be reached.`,
		Example: `  cinch shadow check --redis 127.0.0.1:6390=redis://cache.internal --control redis://a.internal --test redis://b.internal`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runShadowCheck(cmd.Context(), o, probe, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&probe, "probe", 20*time.Second, "`TIME` for which the targets' noise is measured")
	return cmd
}

func runShadowCheck(ctx context.Context, o shadowOptions, probe time.Duration, out, errs io.Writer) error {
	if _, err := o.configure(ctx, errs); err != nil {
		return err
	}
	found, err := shadow.New(o.cfg).Check(ctx, probe)
	if err != nil {
		return withCode(exitUnreachable, err)
	}
	problems, err := operate.PrintFindings(out, found, o.json)
	if err == nil && problems > 0 {
		err = withCode(exitSkipped, fmt.Errorf("%d of these would make a run void", problems))
	}
	return err
}

// configure checks the flags and fills in what they say.
func (o *shadowOptions) configure(ctx context.Context, errs io.Writer) (listen string, err error) {
	p, listen, production, err := o.servers.Protocol()
	if err != nil {
		return "", err
	}
	through, direct := strings.CutPrefix(o.servers.Test, "cinch=")
	if err := o.servers.Read(&o.cfg, p, production, through); err != nil {
		return "", err
	}
	if o.cfg.Reads == 0 {
		o.cfg.Reads = p.Reads
	}
	o.cfg.Wait, o.cfg.Patience = p.Wait, p.Patience
	if o.tls.Cert != "" || o.tls.Key != "" {
		if o.cfg.ClientTLS, err = o.tls.ServerConfig(); err != nil {
			return "", withCode(exitUsage, err)
		}
	}
	if err := o.limit.UnmarshalText([]byte(o.memory)); err != nil {
		return "", withCode(exitUsage, fmt.Errorf("--memory: %w", err))
	}
	for _, share := range []struct {
		flag string
		of   float64
	}{{"--reads", o.cfg.Reads}, {"--margin-p50", o.cfg.Margins.P50}, {"--margin-p99", o.cfg.Margins.P99}} {
		if share.of <= 0 || share.of > 1 {
			return "", withCode(exitUsage, fmt.Errorf("%s: %v is no share between 0 and 1", share.flag, share.of))
		}
	}
	if o.cfg.BaselineOnly && (o.cfg.State == "" || direct) {
		return "", withCode(exitUsage, ui.WithHint(errors.New("--baseline-only is for two servers and a --state to keep the A/A phase in"), "--test cinch=URL has an A/A phase of its own"))
	}
	if direct && p.Variable == "" {
		return "", withCode(exitUsage, fmt.Errorf("--test cinch=URL: there is no gateway for %s to judge", strings.TrimPrefix(p.Flag, "--")))
	}
	if direct {
		g, err := p.Gateway(o.cfg.Test, through, o.rules)
		if err != nil {
			return "", err
		}
		o.cfg.Candidate = g.Start
	}
	o.cfg.Memory = int64(o.limit)
	o.cfg.Log = slog.New(slog.NewTextHandler(errs, nil))
	o.cfg.Protocol, err = p.Open(ctx, o.cfg.Control, o.cfg.Test)
	return listen, withCode(exitUnreachable, err)
}

func runShadow(ctx context.Context, o shadowOptions, signals <-chan os.Signal, out, errs io.Writer) error {
	listen, err := o.configure(ctx, errs)
	if err != nil {
		return err
	}
	l, err := gateway.Listen(listen)
	if err != nil {
		return err
	}
	page, err := operate.CreatePage(o.html)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	r := shadow.New(o.cfg)
	if err := r.Apart(ctx); err != nil {
		return errors.Join(withCode(exitUsage, ui.WithHint(err, "give each target a server of its own")), l.Close())
	}
	if o.selfTest {
		if err := operate.SelfTest(ctx, r, signals); err != nil {
			return errors.Join(err, l.Close())
		}
		fmt.Fprintln(errs, "self-test passed")
	}
	fmt.Fprintf(errs, "clients may connect to %s\n", l.Addr())
	if err := r.Start(ctx); err != nil {
		return errors.Join(ui.WithHint(err, "give the same --batch and margins, or another --state"), l.Close())
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	err = verdictCode(o.watcher(r, signals, page, out, errs).Watch(served))
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = r.Shutdown(stop) // clients that don't end are cut off
	return err
}

// watcher follows a run as the flags say.
func (o *shadowOptions) watcher(r *shadow.Run, signals <-chan os.Signal, page *os.File, out, errs io.Writer) *operate.Watcher {
	return &operate.Watcher{
		Run: r, Signals: signals, Out: out, Errs: errs, Page: page,
		JSON: o.json, Exit: o.exit, OffFile: o.offFile, Every: o.cfg.Batch,
	}
}

// verdictCode is the exit code of what a watcher returns.
func verdictCode(err error) error {
	switch {
	case errors.Is(err, operate.ErrFail):
		return withCode(exitDifference, err)
	case errors.Is(err, operate.ErrNoVerdict):
		return withCode(exitSkipped, err)
	}
	return err
}
