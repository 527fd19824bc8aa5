package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
	"github.com/cinch-layer/cinch/internal/system/gc"
)

// Recording configures a recording by flags.
type Recording struct {
	Listeners
	TLS            endpoint.TLSFiles // for clients
	To             string            // file
	Recipients     []string
	RecipientFiles []string
	Plain          bool // not encrypted
	Redact         []string
	Limit          string // of the file
	Memory         string // limit of the memory of traffic that waits to be written
	Bound          time.Duration
	Exit           bool // return when the recording is over

	JSON io.Writer // gets the final state of the recording; nil: it is not written
}

// progressTime is the interval between progress lines.
const progressTime = 10 * time.Second

// Record passes clients through and records their traffic, until a signal. The next signal ends the
// pass-through.
func (rec Recording) Record(ctx context.Context, signals <-chan os.Signal, errs io.Writer) error {
	p, listen, cfg, err := rec.parseServers()
	if err != nil {
		return err
	}
	cfg.Bound, cfg.Opener, cfg.Log = rec.Bound, p.Opener, slog.New(slog.NewTextHandler(errs, nil))
	if rec.TLS.Cert != "" || rec.TLS.Key != "" {
		if cfg.ClientTLS, err = rec.TLS.ServerConfig(); err != nil {
			return usage("%w", err)
		}
	}
	var limit config.Bytes
	if err := limit.UnmarshalText([]byte(rec.Limit)); err != nil {
		return usage("--limit: %w", err)
	}
	if cfg.Memory, err = parseMemory(rec.Memory); err != nil {
		return err
	}
	if err := checkBound(rec.Bound); err != nil {
		return err
	}
	recipients, err := rec.recipients()
	if err != nil {
		return err
	}
	off, err := runInterruptible(ctx, signals, func(ctx context.Context) (err error) {
		if cfg.Filters, err = p.filters(ctx, cfg.Production, rec.Redact); err == nil {
			p.probeProduction(ctx, cfg.Production, errs)
		}
		return err
	})
	if errors.Is(err, store.ErrUsage) || errors.Is(err, errInterrupted) {
		return err
	} else if err != nil {
		return fault{err, store.ErrUnreachable}
	}
	l, err := gateway.Listen(listen)
	if err != nil {
		return terminal.WithHint(err, hintListen)
	}
	file, err := recording.Create(rec.To, recording.Header{Protocol: p.Name(), Start: time.Now()}, int64(limit), recipients...)
	if err != nil {
		return errors.Join(terminal.WithHint(err, "choose another name for --to"), l.Close())
	}
	r := shadow.NewRecorder(cfg, file)
	if off {
		r.Finish("SIGUSR1")
	}
	return rec.watch(ctx, r, l, signals, errs)
}

// parseServers parses the flags for the clients' address and production.
func (rec Recording) parseServers() (p Protocol, listen string, cfg shadow.RecorderConfig, err error) {
	p, both, err := rec.selected()
	if err != nil {
		return p, "", cfg, err
	}
	if both == "" || rec.To == "" {
		missing := "--to"
		if both == "" {
			p, missing = Redis, "production"
		}
		return p, "", cfg, terminal.WithHint(usage("%s is missing", missing), "write %s 127.0.0.1:%s=%s --to FILE --recipient age1...", p.Flag, p.examplePort, p.exampleURL)
	}
	listen, url, err := p.splitFlag(both)
	if err != nil {
		return p, "", cfg, err
	}
	cfg.Production, err = p.parseUpstream(p.Flag, url)
	return p, listen, cfg, err
}

// recipients returns the recipients that can decrypt the file: none for --no-encryption.
func (rec Recording) recipients() ([]age.Recipient, error) {
	var all []age.Recipient
	for _, name := range rec.RecipientFiles {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("--recipients-file: %w", err)
		}
		some, err := age.ParseRecipients(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, usage("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	some, err := age.ParseRecipients(strings.NewReader(strings.Join(rec.Recipients, "\n")))
	if len(rec.Recipients) > 0 && err != nil {
		return nil, usage("--recipient: %w", err)
	}
	all = append(all, some...)
	if (len(all) > 0) == rec.Plain {
		return nil, terminal.WithHint(usage("give either a recipient (--recipient, --recipients-file) or --no-encryption"), "age-keygen creates a key, and prints its recipient")
	}
	return all, nil
}

func (rec Recording) watch(ctx context.Context, r *shadow.Recorder, l net.Listener, signals <-chan os.Signal, errs io.Writer) error {
	defer gc.Follow(r.MemoryLimit)()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	fmt.Fprintf(errs, "recording to %s; clients may connect to %s\n", rec.To, l.Addr())
	err := rec.follow(r, served, signals, errs)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = r.Shutdown(stop) // clients that don't disconnect are cut off
	return errors.Join(err, r.Err())
}

// follow prints the progress, until the recording is over and the pass-through must end.
func (rec Recording) follow(r *shadow.Recorder, served <-chan error, signals <-chan os.Signal, errs io.Writer) error {
	over := r.Over()
	progress := time.NewTicker(progressTime)
	defer progress.Stop()
	for {
		select {
		case err := <-served:
			return err
		case sig := <-signals:
			if over == nil && sig != syscall.SIGUSR1 { // SIGUSR1 never cuts clients off
				return nil
			}
			r.Finish(sig.String())
		case <-progress.C:
			if over != nil {
				fmt.Fprintln(errs, r.State())
			}
		case <-over:
			over = nil
			state := r.State()
			fmt.Fprintf(errs, "%v\nthe recording has ended: %s\n", state, state.Ended)
			if rec.JSON != nil {
				_ = json.NewEncoder(rec.JSON).Encode(state) // an error here must not affect clients
			}
			if rec.Exit {
				return nil
			}
			fmt.Fprintln(errs, "clients are passed through to production until the next SIGINT or SIGTERM")
		}
	}
}
