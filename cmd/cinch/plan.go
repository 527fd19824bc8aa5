package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/estimate/plan/source"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

type planOptions struct {
	from      []string
	passwords *config.Passwords // source of passwords in URLs; nil: none

	// Limits for the source.
	maxTime  time.Duration
	maxBytes string
	share    string
	match    string
	dbs      []int
	keep     string
	seed     uint64

	// What to measure, and the goals.
	candidates   []string
	zstd         string
	dictionaries string
	minimize     string
	maxCPU       string
	groups       int
	maxLatency   time.Duration
	links        []string
	rates        plan.Rates
	cloud        string
	prices       string
	copies       int
	layout       layoutFlags

	// Output.
	asJSON   bool
	details  bool
	html     string
	write    string
	listen   string
	upstream string

	pair  bool
	batch int

	// The telemetry to plan for, sampled by a running gateway; its page is in from, too.
	otlp, remoteWrite string

	clear func() // clears the line of progress

	bill string
	disk diskOptions

	in        io.Reader
	out, errs io.Writer
}

func newPlanCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan SOURCE…",
		Short: "Estimate savings on your data, and what they cost, and write the configuration",
		Long: `Estimate what compression would save on your data, and what it would cost. It samples a source, groups similar values,
measures every codec, level and trained dictionary on each group with the code that runs in production, and prices the
result. For each group it recommends one setting or no compression, and it writes the configuration (--write).

Sources are files and directories (.jsonl, .json, .csv, and any others), redis://host, mongodb://host,
tarantool://user:password@host, and http://host:9470, the admin page of a running gateway. It only reads, takes no more
than --share of a server's time, and keeps figures, not values. It recognizes values that Valkey GLIDE, django-redis or
phpredis has compressed, and estimates what compressing their content instead would save.

--otlp and --remote-write take the admin page of a gateway with sample: true through which OTLP (HTTP or gRPC) or
Prometheus' remote write passes, and estimate what it costs a month between zones: unchanged, by zstd, by cinch-proto, and
between two gateways with history. Traffic within a zone costs nothing, so they first say how to keep it there.

--bill FILE reads a cloud bill (AWS cost and usage report, CSV or Parquet) and lists the costs that compression can cut.
--disk zfs or --disk btrfs computes the space that a directory would take there, as the filesystem computes it. With
--exact it stores the directory in a btrfs on a loop device, and measures.

docs/PLAN.md describes how the figures are computed, and their limits.

Exit codes: 0 ok, 1 failed, 2 the command line is wrong, 10 the source can't be reached, 11 it is a gateway,
130 interrupted.`,
		Example: `  cinch plan ./exports orders.jsonl
  cinch plan redis://cache.internal --link 100mbit,1.5ms --reads 20000 --writes 500 --write cinch.yaml
  cinch plan redis://cache.internal --minimize latency --max-cpu 100us --json
  cinch plan ./exports --html report.html
  cinch plan mongodb://db1.internal --cross-zone 100%
  cinch plan --otlp http://127.0.0.1:9470 --cloud gcp --zones 3
  cinch plan --remote-write http://127.0.0.1:9470 --pair --write cinch.yaml --upstream http://gateway.zone-b:9010
  cinch plan --bill cur.parquet
  cinch plan --disk btrfs /var/lib/postgresql/15/main`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			o.passwords = passwordsOf(cmd.Context())
			o.from, o.in, o.out, o.errs = args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			err := runPlan(ctx, o)
			if ctx.Err() != nil {
				return withCode(exitInterrupted, errors.New("interrupted"))
			}
			return err
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *planOptions) flags(cmd *cobra.Command) {
	g := flagGroups{cmd: cmd}
	defer g.done()
	f := g.group("Output and files")
	f.StringVar(&o.write, "write", "", "write the recommended configuration to `FILE`, which must not exist")
	f.StringVar(&o.listen, "listen", "", "with --write: `ADDRESS` of the gateway (default: on 127.0.0.1, the protocol's port and 1)")
	f.StringVar(&o.upstream, "upstream", "", "with --write: `URL` of the gateway's upstream (default: the source)")
	f.StringVar(&o.dictionaries, "dictionaries", "files", "with --write: dictionaries in the rules, `WHAT`: files written beside the configuration, auto (gateways train them), or none")
	f.StringVar(&o.html, "html", "", "write the report as a web page to `FILE`, which must not exist: one file, nothing is loaded from elsewhere")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	f.BoolVar(&o.details, "details", false, "show all candidates of all groups")
	f.StringVar(&o.keep, "keep-samples", "", "write the measured values into `DIR`, a file for each group (default: values are not kept)")

	f = g.group("Goals and candidates")
	f.StringVar(&o.minimize, "minimize", "balance", "`WHAT` to minimize: balance (cost, with a preference for less CPU), cost, latency or bytes")
	f.StringArrayVar(&o.links, "link", nil, "`LINK` between application and store: bandwidth and round-trip time, 100mbit,1.5ms (may be repeated)")
	f.DurationVar(&o.maxLatency, "max-latency", 0, "most `TIME` by which a read or write may get slower, on the first --link")
	f.StringVar(&o.maxCPU, "max-cpu", "", "most CPU: `TIME` to compress and decompress a value once (50us), or a number of cores for a group")
	f.StringVar(&o.zstd, "zstd", "", zstdFlag+", as gateways will have it")
	f.StringSliceVar(&o.candidates, "candidates", nil, "`LIST` of settings to measure, as in zstd-19,lz4-9,zstd-3+dict,brotli-9 (default: fourteen common ones)")

	f = g.group("Rates and prices")
	f.Float64Var(&o.rates.Reads, "reads", 0, "`N` reads a second of the whole source (default: as counted by the server, or an assumption that the plan names)")
	f.Float64Var(&o.rates.Writes, "writes", 0, "`N` writes a second to the whole source")
	f.IntVar(&o.copies, "copies", 1, "`N` copies of every value that the store keeps, replicas included")
	o.layout.add(f)
	f.StringVar(&o.cloud, "cloud", "aws", "`CLOUD` whose prices between zones are used: aws (0.01 dollars a GB on either side), gcp (0.01 for the sender) or azure (none)")
	f.StringVar(&o.prices, "prices", "", "YAML `FILE` with your own prices; docs/PLAN.md has the list")

	f = g.group("Sampling limits")
	f.StringVar(&o.match, "match", "", "only keys, spaces or namespaces that match `PATTERN`")
	f.IntSliceVar(&o.dbs, "db", nil, "Redis: `NUMBER` of a database (may be repeated; default: all)")
	f.DurationVar(&o.maxTime, "max-time", 55*time.Second, "spend no more than about `TIME`, up to 70% of it reading")
	f.StringVar(&o.maxBytes, "max-bytes", "1GiB", "read no more than about `SIZE`")
	f.StringVar(&o.share, "share", "5%", "take no more than `PERCENT` of a server's time")
	f.IntVar(&o.groups, "groups", 0, "measure the `N` largest groups, as far as the time allows (default 64)")
	f.Uint64Var(&o.seed, "seed", 0, "seed `NUMBER` of the sample: the same seed gives the same sample")
	f.BoolVar(&o.pair, "pair", false, "MongoDB, HTTP, gRPC: assume that a second gateway can run beside the server")
	f.IntVar(&o.batch, "batch", 0, "MongoDB: `N` documents in a query's reply (default: as counted by the server, or a range)")

	f = g.group("Instead of a source: telemetry sampled by a running gateway with sample: true")
	f.StringVar(&o.otlp, "otlp", "", "estimate the cost of OTLP between zones from the gateway with the admin page `URL`: paths /v1/metrics, /v1/traces and /v1/logs, and OTLP's gRPC services")
	f.StringVar(&o.remoteWrite, "remote-write", "", "the same for Prometheus' remote write, from the gateway with the admin page `URL`: paths such as /api/v1/write and /api/v1/push")
	f = g.group("Instead of a source: a cloud bill")
	f.StringVar(&o.bill, "bill", "", "read a cloud bill from `FILE`, and list the costs that compression can cut")
	o.disk.flags(g.group("Instead of a store: space that a directory takes on a filesystem"))
}

func runPlan(ctx context.Context, o planOptions) error {
	if err := o.takeTelemetry(); err != nil {
		return err
	}
	switch {
	case o.bill != "" && (o.disk.filesystem != "" || len(o.from) > 0):
		return wrongUsage(errors.New("--bill takes no source and no --disk"))
	case o.bill != "":
		return runBill(ctx, o)
	case len(o.from) == 0:
		return wrongUsage(terminal.WithHint(errors.New("no source given"), "give files, a directory, redis://host or http://host:9470; or --bill FILE"))
	case o.disk.filesystem != "":
		return runDisk(ctx, o)
	}
	p, limits, err := o.parse()
	if err != nil {
		return wrongUsage(err)
	}
	if p.Prices, err = o.priceTable(); err != nil {
		return err
	}
	if err := o.namesAreFree(); err != nil {
		return err
	}
	progress := terminal.NewProgress(o.errs)
	defer progress.Clear()
	p.Progress = progress.Show
	o.clear = progress.Clear
	start := time.Now()
	report, err := o.report(ctx, p, limits)
	if err != nil {
		return err
	}
	report.LookedAt.Took = plan.Seconds(time.Since(start).Seconds())
	progress.Clear()
	var made plan.CreatedFiles
	if err := o.writeFiles(&made, report); err != nil { // half a plan would block the next attempt
		return errors.Join(err, made.Remove())
	}
	return o.show(report, made.Names)
}

// report reads the source and makes the plan.
func (o *planOptions) report(ctx context.Context, p plan.Options, l planLimits) (*plan.Report, error) {
	if isAdminURL(o.from[0]) && len(o.from) == 1 {
		return o.planMessages(ctx, p)
	}
	c, err := o.collect(ctx, &p, l)
	if err != nil {
		return nil, err
	}
	o.askRates(ctx, c, &p)
	r, err := plan.Make(ctx, c, p)
	if errors.Is(err, plan.ErrSealed) {
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "the admin page of their gateway shows what they save; 'cinch pack --to SETTING --dry-run' estimates another setting")
	}
	if errors.Is(err, plan.ErrEmpty) {
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "check that it is the right source, and that it holds values")
	}
	if err != nil {
		return nil, err
	}
	return r, o.keepSamples(c)
}

func isAdminURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// planLimits limits the reading of the source.
type planLimits struct {
	bytes int64
	share float64
	until time.Time
}

func (o *planOptions) parse() (p plan.Options, l planLimits, err error) {
	var bytes config.Bytes
	if err := bytes.UnmarshalText([]byte(o.maxBytes)); err != nil {
		return p, l, fmt.Errorf("--max-bytes: %w", err)
	}
	var share config.Percent
	if err := share.UnmarshalText([]byte(o.share)); err != nil || share == 0 {
		return p, l, terminal.WithHint(fmt.Errorf("--share: %q is not a share of a server's time", o.share), "write a percentage, as in 5%%")
	}
	if o.maxTime <= 0 || bytes <= 0 {
		return p, l, errors.New("--max-time and --max-bytes have to be above zero")
	}
	if p.Engine, o.zstd, err = engineWithout(o.zstd); err != nil {
		return p, l, err
	}
	now := time.Now()
	l = planLimits{bytes: int64(bytes), share: float64(share) / 100, until: now.Add(o.maxTime * 7 / 10)}
	p.MeasureDeadline = now.Add(o.maxTime)
	p.Rates, p.MaxLatency, p.MaxGroups = o.rates, o.maxLatency, max(o.groups, 0)
	p.Train = trainerOf(p.Engine)
	return p, l, o.parseWishes(&p)
}

func (o *planOptions) priceTable() (price.Table, error) {
	t, err := price.For(o.cloud)
	if err != nil {
		return nil, terminal.WithHint(fmt.Errorf("--cloud: %w", err), "for another cloud, write its prices into a file and give it with --prices")
	}
	if o.prices == "" {
		return t, nil
	}
	text, err := os.ReadFile(o.prices)
	if err != nil {
		return nil, err
	}
	if t, err = t.With(text); err != nil {
		return nil, terminal.WithHint(fmt.Errorf("%s: %w", o.prices, err), "docs/PLAN.md has an example")
	}
	return t, nil
}

func (o *planOptions) parseWishes(p *plan.Options) error {
	p.Minimize = plan.Objective(o.minimize)
	switch p.Minimize {
	case plan.Balance, plan.MinCost, plan.MinLatency, plan.MinBytes:
	default:
		return terminal.WithHint(fmt.Errorf("--minimize %q", o.minimize), "write balance, cost, latency or bytes")
	}
	for _, text := range o.links {
		l, err := plan.ParseLink(text)
		if err != nil {
			return terminal.WithHint(fmt.Errorf("--link: %w", err), "write bandwidth and round-trip time, as in 100mbit,1.5ms")
		}
		p.Links = append(p.Links, l)
	}
	if len(p.Links) == 0 && (p.Minimize == plan.MinLatency || o.maxLatency > 0) {
		return terminal.WithHint(errors.New("latency depends on the link"), "name it, as in --link 100mbit,1.5ms")
	}
	if err := o.parseCPU(p); err != nil {
		return err
	}
	switch o.dictionaries {
	case "files":
	case "auto":
		p.DictSaving = config.Default().Training.MinSaving.Share()
	case "none":
		p.NoDictionaries = true
	default:
		return terminal.WithHint(fmt.Errorf("--dictionaries %q", o.dictionaries), "write files, auto or none")
	}
	for _, n := range []float64{o.rates.Reads, o.rates.Writes, float64(o.copies - 1)} {
		if !(n >= 0) {
			return errors.New("--reads and --writes can't be negative, and --copies is at least 1")
		}
	}
	var err error
	if p.Layout, p.ZonesAssumed, err = o.layout.read(); err != nil {
		return err
	}
	p.Layout.Copies = o.copies
	p.Candidates = plan.DefaultCandidates()
	if len(o.candidates) > 0 {
		p.Candidates = nil
	}
	for _, text := range o.candidates {
		c, err := plan.ParseCandidate(strings.TrimSpace(text))
		if err != nil {
			return terminal.WithHint(err, "write settings, as in zstd-3, lz4, zstd-3+dict; brotli-5 to compare with")
		}
		p.Candidates = append(p.Candidates, c)
	}
	return nil
}

// parseCPU parses --max-cpu, a duration per value or a number of cores.
func (o *planOptions) parseCPU(p *plan.Options) (err error) {
	if o.maxCPU == "" {
		return nil
	}
	if p.MaxCores, err = strconv.ParseFloat(o.maxCPU, 64); err == nil && p.MaxCores > 0 {
		return nil
	}
	if p.MaxCPU, err = time.ParseDuration(o.maxCPU); err == nil && p.MaxCPU > 0 {
		return nil
	}
	return terminal.WithHint(fmt.Errorf("--max-cpu %q", o.maxCPU), "write a time for one value, as in 50us, or a number of cores, as in 0.5")
}

// collect reads the source.
func (o *planOptions) collect(ctx context.Context, p *plan.Options, l planLimits) (*plan.Collector, error) {
	for _, from := range o.from {
		if strings.Contains(from, "://") && len(o.from) > 1 {
			return nil, wrongUsage(terminal.WithHint(errors.New("a server can't be combined with other sources"), "name one server, or any number of files and directories"))
		}
	}
	for _, from := range o.from {
		if err := schemeMissing(from); err != nil {
			return nil, err
		}
	}
	if source.Is(o.from[0]) {
		return source.Collect(ctx, o.from[0], p, source.Options{
			Match: o.match, Databases: o.dbs, MaxBytes: l.bytes, Share: l.share, Until: l.until, Seed: o.seed,
			Pair: o.pair, Batch: o.batch, Candidates: len(o.candidates) > 0,
		})
	}
	if scheme, _, found := strings.Cut(o.from[0], "://"); found {
		return nil, wrongUsage(terminal.WithHint(fmt.Errorf("%s:// is not a source", scheme), "sources are files, directories, redis://, rediss://, unix://, mongodb://, tarantool:// and http:// of an admin page"))
	}
	c := plan.NewCollector(plan.CollectOptions{Seed: o.seed})
	var err error
	p.Source, err = plan.Files(ctx, c, o.from, plan.FileOptions{MaxBytes: l.bytes, Progress: p.Progress})
	return c, err
}

// show prints the report.
func (o *planOptions) show(r *plan.Report, written []string) error {
	if o.asJSON {
		return writeJSON(o.out, r)
	}
	if err := r.Text(o.out, plan.TextOptions{Width: terminalWidth(o.out), Details: o.details}); err != nil {
		return err
	}
	for _, name := range written {
		terminal.Note(o.errs, "wrote %s\n", name)
	}
	return nil
}

// terminalWidth returns the terminal's width, or COLUMNS if that is set.
func terminalWidth(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		return n
	}
	return terminal.Width(w)
}

// keepSamples writes the samples if --keep-samples asks for it.
func (o *planOptions) keepSamples(c *plan.Collector) error {
	if o.keep == "" {
		return nil
	}
	if err := os.MkdirAll(o.keep, 0o700); err != nil {
		return err
	}
	return c.Samples(func(group string, i int, value []byte) error {
		return plan.CreatePrivate(filepath.Join(o.keep, fmt.Sprintf("%s-%05d", group, i)), value)
	})
}
