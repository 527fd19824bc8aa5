// Example redis reproduces the published case of a cache that was slow at peak hours: an API serves
// restaurant menus from Redis, over a network that becomes saturated, before and after a gateway compresses
// the stored values. It draws the changes on a page.
//
//	go run ./examples/redis
//
//	load -> API ------------------------------> link -> redis-server     before
//	load -> API -> cinch serve (beside the API) -> link -> redis-server     after
//
// API, gateway, link and Redis are separate processes; the API is the same program in both.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
)

func main() {
	link.Child()
	err := error(nil)
	if len(os.Args) > 1 && os.Args[1] == apiRole {
		err = serveAPI(os.Args[2:])
	} else {
		err = runExample(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// options configure the example. All results except bytes depend on the machine.
type options struct {
	menus   int
	step    time.Duration
	mbit    float64
	trip    time.Duration
	setting string
	cinch   string
	out     string
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("redis", flag.ContinueOnError)
	f.IntVar(&o.menus, "menus", 1000, "menus in the cache, of 123 KB on average")
	f.DurationVar(&o.step, "step", 6*time.Second, "how long each load lasts")
	f.Float64Var(&o.mbit, "mbit", 250, "Mbit/s of the link between API and Redis")
	f.DurationVar(&o.trip, "rtt", 200*time.Microsecond, "round trip of the link")
	f.StringVar(&o.setting, "setting", "zstd-3", "codec and level of the gateway's rule")
	f.StringVar(&o.cinch, "cinch", "", "path of the cinch program; empty: build it from this tree")
	f.StringVar(&o.out, "out", "menus.html", "file for the page")
	if err := rig.ParseFlags(f, args, "An API reads menus through a cache at peak load, before and after a gateway compresses them; a page has the graphs."); err != nil {
		return o, err
	}
	if o.menus < 1 || o.step < 100*time.Millisecond || o.mbit <= 0 {
		err = errors.New("--menus must be at least 1, --step at least 100ms, --mbit more than 0")
	}
	return o, err
}

func runExample(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	work, cinch, err := rig.Workspace(o.cinch)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	o.cinch = cinch
	var all []outcome
	for _, c := range []cache{{name: "before"}, {name: "after", setting: o.setting}} {
		out, err := c.run(o, work)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all = append(all, out)
	}
	fmt.Print(text(o, all))
	if err := writePage(o, all); err != nil {
		return err
	}
	fmt.Printf("\nThe page is %s.\n", o.out)
	return nil
}
