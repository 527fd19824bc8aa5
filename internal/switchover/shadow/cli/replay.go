package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"filippo.io/age"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
	"github.com/cinch-layer/cinch/internal/system/gc"
)

// ReplayOptions names a recording, and how it is played.
type ReplayOptions struct {
	File       string
	Identities []string // files
	Speed      string
}

// Replay drives the targets from a recording. It returns the same errors as Run.
func (m *Mirror) Replay(ctx context.Context, p ReplayOptions, signals <-chan os.Signal, out, errs io.Writer) error {
	speed, err := parseSpeed(p.Speed)
	if err != nil {
		return err
	}
	in, size, err := openRecording(p.File, p.Identities)
	if err != nil {
		return err
	}
	defer in.Close()
	fmt.Fprintln(errs, size)
	m.Servers.RecordedProtocol = in.Protocol
	page, err := createReportFile(m.HTML)
	if err != nil {
		return err
	}
	defer removeEmptyReport(page)
	r, _, err := m.prepare(ctx, signals, errs)
	if err != nil {
		return err
	}
	defer gc.Follow(r.MemoryLimit)()
	w := m.watcher(r, signals, page, out, errs)
	if err := m.selfTest(ctx, r, w); err != nil {
		return err
	}
	if err := r.Replay(ctx, in.Reader, size, speed); err != nil {
		return err
	}
	return w.Watch(nil)
}

// parseSpeed parses the speed of a replay: a factor, or max, which is 0.
func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(text, 64)
	if err != nil || speed < 0.01 || speed > 1000 {
		return 0, usage("--speed: %q must be max or a factor between 0.01 and 1000", text)
	}
	return speed, nil
}

// openRecording opens a recording at its beginning, after reading all of it for the summary.
func openRecording(name string, identityFiles []string) (*recording.Opened, recording.Summary, error) {
	var size recording.Summary
	identities, err := readIdentities(identityFiles)
	if err != nil {
		return nil, size, err
	}
	all, err := recording.Open(name, identities...)
	if errors.Is(err, recording.ErrEncrypted) {
		err = terminal.WithHint(err, "give --identity KEYFILE")
	}
	if err != nil {
		return nil, size, err
	}
	size, err = recording.Summarize(all.Reader)
	if err = errors.Join(err, all.Close()); err != nil {
		return nil, size, err
	}
	in, err := recording.Open(name, identities...)
	return in, size, err
}

func readIdentities(files []string) ([]age.Identity, error) {
	var all []age.Identity
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("--identity: %w", err)
		}
		some, err := age.ParseIdentities(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, usage("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
