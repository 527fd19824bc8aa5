package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/observe/admin/remote"
	"github.com/cinch-layer/cinch/internal/observe/top"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

type topOptions struct {
	pages     []string
	packState string
	reach     remote.Options
	every     time.Duration
	count     int
	asJSON    bool

	in  io.Reader
	out io.Writer
}

func newTopCommand() *cobra.Command {
	o := topOptions{every: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "top [ADMIN ...]",
		Short: "Show what gateways save and cost right now",
		Long: `Show what gateways save and cost right now, from their admin pages: bytes before and after, CPU, added latency, clients and
errors a second, and the rules of the gateway that is chosen with the arrow keys.

ADMIN is the address of an admin page: 9470, host:9470, https://host:9470 or unix:/path. Without one it is 127.0.0.1:9470.
On a terminal it redraws itself until q; otherwise, and with --json or --count, it prints the figures of each interval.

With --pack-state it shows the workers of cinch pack or unpack, and their sum, from their state files.

Exit codes: 0 ok, 1 there are no state files, 2 the command line is wrong, 10 no page answers.`,
		Example: `  cinch top
  cinch top gateway-1:9470 gateway-2:9470 --interval 5s
  cinch top https://gateway-1:9470 --ca ca.pem --token-file token
  cinch top --json --count 1 | jq .total
  cinch top --pack-state /state/cache`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.pages, o.in, o.out = args, cmd.InOrStdin(), cmd.OutOrStdout()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runTop(ctx, o, cmd.Flags().Changed("count"))
		},
	}
	cmd.Flags().DurationVar(&o.every, "interval", o.every, "refresh interval, a `TIME` from 250ms")
	cmd.Flags().IntVar(&o.count, "count", 0, "print `N` intervals and end; 0: no end (default 1 if the output is not a terminal)")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print each interval as a line of JSON")
	cmd.Flags().StringVar(&o.packState, "pack-state", "", "print the progress of cinch pack or unpack instead, summed over workers, from the state files in `DIR`")
	cmd.Flags().StringVar(&o.reach.TokenFile, "token-file", "", "`FILE` with the pages' token (default $"+remote.TokenVariable+")")
	cmd.Flags().StringVar(&o.reach.CA, "ca", "", "PEM `FILE` with CA certificates of the pages (default: system roots)")
	return cmd
}

const leastInterval = 250 * time.Millisecond

func runTop(ctx context.Context, o topOptions, counted bool) error {
	if o.every < leastInterval || o.count < 0 {
		return withCode(exitUsage, errors.New("--interval is 250ms or more, --count 0 or more"))
	}
	if o.packState != "" {
		if len(o.pages) > 0 {
			return withCode(exitUsage, terminal.WithHint(errors.New("--pack-state and admin pages exclude each other"), "leave out %s", o.pages[0]))
		}
		return watchSharedRuns(ctx, o, counted)
	}
	if len(o.pages) == 0 {
		o.pages = []string{"127.0.0.1:9470"}
	}
	var pages []top.Page
	for _, address := range o.pages {
		page, err := remote.Open(address, o.reach)
		if err != nil {
			return withCode(exitUsage, terminal.WithHint(err, "give the address of a running gateway's admin page, as host:9470"))
		}
		pages = append(pages, page)
	}
	onTerminal, width := terminal.IsTerminal(o.out), 0
	if onTerminal {
		width = terminal.Width(o.out)
	}
	if onTerminal && terminal.IsTerminal(o.in) && !o.asJSON && !counted {
		return top.Run(ctx, pages, o.every, os.Getenv("NO_COLOR") == "", o.in.(*os.File), o.out.(*os.File))
	}
	if !onTerminal && !o.asJSON && !counted {
		o.count = 1
	}
	err := top.Print(ctx, o.out, pages, top.Printing{Every: o.every, Count: o.count, JSON: o.asJSON, Width: width})
	if errors.Is(err, top.ErrNoAnswer) {
		return withCode(exitUnreachable, terminal.WithHint(err, "check that cinch serve is running, and that this is the address of its admin page"))
	}
	return err
}
