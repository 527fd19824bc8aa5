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

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/ui"
)

// wellKnown are the schemes of servers by the ports that they usually have.
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

// isAddress takes host:port of a server for what it is, unless there is a file of that name.
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

// schemeMissing says how to write the URL of a server that was named by its address only.
func schemeMissing(source string) error {
	port, ok := isAddress(source)
	if !ok {
		return nil
	}
	address := source
	if strings.HasPrefix(source, ":") {
		address = "localhost" + source
	}
	err := wrongUsage(fmt.Errorf("%s is no file", source))
	for _, k := range wellKnown {
		if port >= k.first && port <= k.last {
			return ui.WithHint(err, "for the server at that address write %s://%s", k.scheme, address)
		}
	}
	return ui.WithHint(err, "for a server at that address write redis://%s, mongodb://%s or tarantool://%s", address, address, address)
}

// askRates asks who sits at the terminal for rates that what the server has counted does not
// tell. Without a terminal the report says which flags do.
func (o *planOptions) askRates(ctx context.Context, c *plan.Collector, p *plan.Options) {
	warning := p.WeighRates(c)
	if p.Source.Doubt != "" && p.Rates == (plan.Rates{}) {
		warning = p.Source.Doubt
	}
	if warning == "" || o.asJSON || !ui.IsTerminal(o.in) || !ui.IsTerminal(o.errs) {
		return
	}
	o.clear()
	asked := time.Now()
	answers := plan.Question{Lines: bufio.NewScanner(o.in), Ask: func(s string) { fmt.Fprint(o.errs, s) }}
	answers.Rates(ctx, p, warning)
	p.MeasureDeadline = p.MeasureDeadline.Add(time.Since(asked))
}
