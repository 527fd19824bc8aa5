package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/shadow/recording"
	shadowredis "github.com/cinch-layer/cinch/internal/shadow/redis"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Tape is what a recording is made of.
type Tape struct {
	Redis          string // LISTEN=URL
	To             string // file
	Recipients     []string
	RecipientFiles []string
	Plain          bool // not encrypted
	Redact         []string
	Limit          string // of the file
	Memory         string // of what waits to be written
	Bound          time.Duration
	Exit           bool // when the recording is over
}

// progressTime is between two lines.
const progressTime = 10 * time.Second

// Record passes clients through and keeps what they do, until a signal. The next one ends the pass-through.
func (t Tape) Record(ctx context.Context, signals <-chan os.Signal, errs io.Writer) error {
	listen, url, ok := strings.Cut(t.Redis, "=")
	if !ok || t.To == "" {
		return ui.WithHint(usage("production and a file are needed"), "write --redis 127.0.0.1:6390=redis://production --to FILE --recipient age1...")
	}
	production, err := gateway.ParseUpstream(url, "6379")
	if err != nil {
		return usage("--redis: %w", err)
	}
	var limit, memory config.Bytes
	if err := limit.UnmarshalText([]byte(t.Limit)); err != nil {
		return usage("--limit: %w", err)
	}
	if err := memory.UnmarshalText([]byte(t.Memory)); err != nil {
		return usage("--memory: %w", err)
	}
	recipients, err := t.recipients()
	if err != nil {
		return err
	}
	filters, err := shadowredis.NewFilters(ctx, production, t.Redact)
	if err != nil {
		return fault{err, store.ErrUnreachable}
	}
	l, err := gateway.Listen(listen)
	if err != nil {
		return err
	}
	file, err := recording.Create(t.To, recording.Header{Protocol: "redis", Start: time.Now()}, int64(limit), recipients...)
	if err != nil {
		return errors.Join(ui.WithHint(err, "choose another name for --to"), l.Close())
	}
	r := shadow.NewRecorder(shadow.RecorderConfig{
		Production: production, Filters: filters, Memory: int64(memory), Bound: t.Bound, Log: slog.New(slog.NewTextHandler(errs, nil)),
	}, file)
	return t.watch(ctx, r, l, signals, errs)
}

// recipients can decrypt the file: none, if that is what is asked for.
func (t Tape) recipients() ([]age.Recipient, error) {
	var all []age.Recipient
	for _, name := range t.RecipientFiles {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		some, err := age.ParseRecipients(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, usage("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	some, err := age.ParseRecipients(strings.NewReader(strings.Join(t.Recipients, "\n")))
	if len(t.Recipients) > 0 && err != nil {
		return nil, usage("--recipient: %w", err)
	}
	all = append(all, some...)
	if (len(all) > 0) == t.Plain {
		return nil, ui.WithHint(usage("say who can read the recording: --recipient or --recipients-file, or --no-encryption"), "age-keygen makes a key, and prints its recipient")
	}
	return all, nil
}

func (t Tape) watch(ctx context.Context, r *shadow.Recorder, l net.Listener, signals <-chan os.Signal, errs io.Writer) error {
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	fmt.Fprintf(errs, "recording to %s; clients may connect to %s\n", t.To, l.Addr())
	err := t.follow(r, served, signals, errs)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = r.Shutdown(stop) // clients that don't end are cut off
	return errors.Join(err, r.Err())
}

// follow says how the recording goes, until it is over and the pass-through is to end.
func (t Tape) follow(r *shadow.Recorder, served <-chan error, signals <-chan os.Signal, errs io.Writer) error {
	over := r.Over()
	progress := time.NewTicker(progressTime)
	defer progress.Stop()
	for {
		select {
		case err := <-served:
			return err
		case sig := <-signals:
			if over == nil {
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
			if t.Exit {
				return nil
			}
			fmt.Fprintln(errs, "clients are passed through to production until the next SIGINT or SIGTERM")
		}
	}
}
