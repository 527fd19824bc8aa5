// Example first runs Cinch on its embedded store, which needs no server. It writes orders through a gateway,
// reads each of them back and compares it, and prints the size of the data in the store.
//
//	make run                       # or: go run ./examples/first
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/test/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

const (
	batch = 50    // orders that are written, and then read, in one pipeline
	keys  = 20000 // keys that orders are written to; more orders replace earlier ones, so that memory is bounded
)

// run starts the gateway and writes orders until ctx ends or enough are written.
func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("first", flag.ContinueOnError)
	orders := f.Int("orders", 0, "number of orders (0: until Ctrl-C)")
	rate := f.Int("rate", 1000, "orders a second (0: as fast as they are answered)")
	cinch := f.String("cinch", "", "path of the cinch program; empty: build it from this tree")
	if err := rig.ParseFlags(f, args, "Writes orders to an embedded store and reads them back through a gateway, and prints the growing saving."); err != nil {
		return err
	}
	work, program, err := rig.Workspace(*cinch)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	addr, err := freeOr("127.0.0.1:6380")
	if err != nil {
		return err
	}
	admin, err := freeOr("127.0.0.1:9470")
	if err != nil {
		return err
	}
	gateway, err := rig.Start("cinch", addr, work, program, "serve", "--listen", addr, "--admin", admin)
	if err != nil {
		return err
	}
	defer gateway.Stop()
	fmt.Fprintf(out, "gateway   redis-cli -h 127.0.0.1 -p %s\npage      http://%s/\nend       Ctrl-C\n\n", addr[strings.LastIndex(addr, ":")+1:], admin)

	client := gateway.Client()
	defer client.Close()
	load := &load{client: client, random: rand.New(rand.NewPCG(7, 7))}
	report := &report{out: out, admin: admin, log: gateway.Output}
	began, next := time.Now(), time.Now().Add(time.Second)
	for ctx.Err() == nil && (*orders == 0 || load.written < *orders) {
		if err := load.step(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
		if time.Now().After(next) {
			next = next.Add(time.Second)
			if err := report.line(time.Since(began)); err != nil {
				return err
			}
		}
		if *rate > 0 {
			due := began.Add(time.Duration(load.written) * time.Second / time.Duration(*rate))
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(due)):
			}
		}
	}
	// A Ctrl-C at a terminal also reaches the gateway, which then serves no more metrics.
	if err := report.line(time.Since(began)); err != nil && ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(out, "\n%d orders were written and read back, all unchanged.\nYour own server: cinch serve --redis 127.0.0.1:6380=redis://HOST:6379\n", load.written)
	return nil
}

// freeOr returns addr, or another address of 127.0.0.1 if addr is in use.
func freeOr(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return rig.FreeAddr()
	}
	return addr, l.Close()
}

// load writes orders and reads them back.
type load struct {
	client  *redis.Client
	random  *rand.Rand
	written int
}

// step writes a batch of orders, reads them, and fails if one differs.
func (l *load) step(ctx context.Context) error {
	var want [batch]string
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range want {
			want[i] = l.order(l.written + i + 1)
			p.Set(ctx, l.key(i), want[i], 0)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing orders: %w", err)
	}
	got, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range want {
			p.Get(ctx, l.key(i))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading orders: %w", err)
	}
	for i, reply := range got {
		if text := reply.(*redis.StringCmd).Val(); text != want[i] {
			return fmt.Errorf("%s differs: wrote %q, read %q", l.key(i), want[i], text)
		}
	}
	l.written += batch
	return nil
}

func (l *load) key(i int) string { return "order:" + strconv.Itoa((l.written+i)%keys) }

// order returns the JSON of an order with one to nine items.
func (l *load) order(id int) string {
	var b strings.Builder
	pick := func(words ...string) string { return words[l.random.IntN(len(words))] }
	fmt.Fprintf(&b, `{"id":%d,"customer":{"id":%d,"city":"%s"},"status":"paid","items":[`, id, l.random.IntN(100000), pick("Oslo", "Lima", "Pune", "Rome"))
	for i := range 1 + l.random.IntN(9) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"%s-%d","quantity":%d,"price":%d}`, pick("tea", "rice", "soap", "salt", "milk", "oats"), l.random.IntN(900), 1+l.random.IntN(5), l.random.IntN(5000))
	}
	b.WriteString("]}")
	return b.String()
}

// report prints figures from the gateway's metrics.
type report struct {
	out             io.Writer
	admin           string
	log             func() string // of the gateway
	written, stored float64       // at the last line
	lines           int
	dictionary      bool
}

// line prints the bytes written and stored so far, and the savings overall and since the previous line.
func (r *report) line(elapsed time.Duration) error {
	written, stored, err := r.bytes()
	if err != nil {
		return err
	}
	if r.lines == 0 {
		fmt.Fprintln(r.out, "seconds     written      stored   saved   since the line above")
	}
	r.lines++
	note := ""
	if !r.dictionary && strings.Contains(r.log(), "dictionary rolled out") {
		r.dictionary = true
		note = "   a dictionary trained on these orders is used from now on"
	}
	fmt.Fprintf(r.out, "%7.0f  %10s  %10s  %4.0f %%   %4.0f %%%s\n", elapsed.Seconds(), terminal.Size(int64(written)), terminal.Size(int64(stored)),
		saved(written, stored), saved(written-r.written, stored-r.stored), note)
	r.written, r.stored = written, stored
	return nil
}

func saved(written, stored float64) float64 {
	if written == 0 {
		return 0
	}
	return 100 * (1 - stored/written)
}

// bytes returns the bytes of values that clients wrote, and the bytes that the gateway stored for them.
func (r *report) bytes() (written, stored float64, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get("http://" + r.admin + "/metrics")
	if err != nil {
		return 0, 0, err
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "{")
		number, err := strconv.ParseFloat(lines.Text()[strings.LastIndex(lines.Text(), " ")+1:], 64)
		switch {
		case err != nil:
		case name == "cinch_value_raw_bytes_total":
			written += number
		case name == "cinch_value_stored_bytes_total":
			stored += number
		case name == "cinch_value_left_bytes_total":
			written += number
			stored += number
		}
	}
	return written, stored, lines.Err()
}
