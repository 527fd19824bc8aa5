package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// wellKnown maps the usual ports of servers to URL schemes.
var wellKnown = []struct {
	first, last int
	scheme      string
}{
	{6379, 6399, "redis"},
	{7000, 7010, "redis+cluster"},
	{26379, 26389, "redis+sentinel"},
	{27017, 27030, "mongodb"},
	{3301, 3310, "tarantool"},
	{9470, 9479, "http"},
}

// isAddress reports whether source is the host:port of a server, and not the name of an existing file.
func isAddress(source string) (port int, ok bool) {
	host, text, err := net.SplitHostPort(source)
	if err != nil || host == "" && text == "" || strings.ContainsAny(source, "/\\ ") {
		return 0, false
	}
	if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
		return 0, false
	}
	_, err = os.Lstat(source)
	return port, err != nil
}

// schemeMissing returns an error with the URL to write if a server is given by its address only.
func schemeMissing(source string) error {
	port, ok := isAddress(source)
	if !ok {
		return nil
	}
	address := source
	if strings.HasPrefix(source, ":") {
		address = "localhost" + source
	}
	err := wrongUsage(fmt.Errorf("%s is an address without a scheme", source))
	for _, k := range wellKnown {
		if port >= k.first && port <= k.last {
			return terminal.WithHint(err, "for the server at that address write %s://%s", k.scheme, address)
		}
	}
	return terminal.WithHint(err, "for a server at that address write redis://%s, mongodb://%s or tarantool://%s", address, address, address)
}

// askRates asks the user for rates if the server's counters don't show them. Without a terminal the report
// names the flags.
func (o *planOptions) askRates(ctx context.Context, c *plan.Collector, p *plan.Options) {
	warning := p.WeighRates(c)
	if p.Source.Doubt != "" && p.Rates == (plan.Rates{}) {
		warning = p.Source.Doubt
	}
	if warning == "" || o.asJSON || !terminal.IsTerminal(o.in) || !terminal.IsTerminal(o.errs) {
		return
	}
	o.clear()
	asked := time.Now()
	answers := plan.RatesPrompt{Lines: bufio.NewScanner(o.in), Ask: func(s string) { fmt.Fprint(o.errs, s) }}
	answers.Rates(ctx, p, warning)
	p.MeasureDeadline = p.MeasureDeadline.Add(time.Since(asked))
}
