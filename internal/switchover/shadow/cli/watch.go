package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Watcher follows a run, prints its progress and handles signals.
type Watcher struct {
	Run        *shadow.Run
	Signals    <-chan os.Signal
	Out, Errs  io.Writer
	ReportFile *os.File // nil: no HTML report
	JSON       bool
	Exit       bool   // return when the run is over
	OffFile    string // if this file exists, the mirror is turned off
	Every      time.Duration

	reported   bool
	reportErr  error // of the report
	endSignals int   // number of signals that ask for the end
}

// offFileInterval is the interval of the checks for OffFile.
const offFileInterval = 200 * time.Millisecond

// mirrorOn is printed when traffic begins to reach the targets.
const mirrorOn = "the mirror is on"

// startRun starts the run, and watches it.
func (w *Watcher) startRun(ctx context.Context, served <-chan error) error {
	if err := w.Run.Start(ctx); err != nil {
		return w.passThrough(err, served)
	}
	fmt.Fprintln(w.Errs, mirrorOn)
	return w.Watch(served)
}

// passThrough handles a run that can't begin: clients, current and later ones, are passed through until a
// signal. If no client has connected yet, it returns at once.
func (w *Watcher) passThrough(err error, served <-chan error) error {
	w.Run.Off("the run did not begin")
	if w.Exit || w.Run.Clients().Total == 0 {
		return err
	}
	terminal.PrintError(w.Errs, fmt.Errorf("the mirror is off: %w", err))
	fmt.Fprintln(w.Errs, "clients are passed through to production until the next SIGINT or SIGTERM")
	for {
		select {
		case ended := <-served:
			return errors.Join(err, ended)
		case sig := <-w.Signals:
			if sig != syscall.SIGUSR1 {
				return err
			}
		}
	}
}

// Watch follows the run and returns the error for its verdict, or served's error if that comes first.
func (w *Watcher) Watch(served <-chan error) error {
	over := w.Run.Over()
	progress := time.NewTicker(w.Every)
	defer progress.Stop()
	look := time.NewTicker(offFileInterval)
	defer look.Stop()
	for {
		select {
		case err := <-served:
			return err
		case sig := <-w.Signals:
			if w.reported && sig != syscall.SIGUSR1 { // SIGUSR1 never cuts clients off
				return errors.Join(w.reportErr, w.verdictError())
			}
			w.handleSignal(sig)
		case <-look.C:
			w.checkOffFile()
		case <-progress.C:
			if !w.reported {
				fmt.Fprintln(w.Errs, w.Run.Report().Line())
			}
		case <-over:
			over = nil
			w.reported = true
			if w.reportErr = w.printReport(); w.Exit || w.endSignals > 1 {
				return errors.Join(w.reportErr, w.verdictError())
			}
			if w.reportErr != nil { // clients still need the pass-through
				fmt.Fprintln(w.Errs, "write the report:", w.reportErr)
			}
			fmt.Fprintln(w.Errs, "clients are passed through to production until the next SIGINT or SIGTERM")
		}
	}
}

func (w *Watcher) handleSignal(sig os.Signal) {
	if sig == syscall.SIGUSR1 {
		w.Run.Off("SIGUSR1")
		return
	}
	if w.endSignals++; w.endSignals > 1 {
		w.Run.Off(sig.String() + ", twice") // a target may never answer
		return
	}
	w.Run.Finish(sig.String())
}

func (w *Watcher) checkOffFile() {
	if w.OffFile == "" {
		return
	}
	if _, err := os.Stat(w.OffFile); err == nil {
		w.Run.Off("found the off-file " + w.OffFile)
	}
}

func (w *Watcher) printReport() error {
	r := w.Run.Report()
	var page error
	if w.ReportFile != nil {
		page = errors.Join(r.HTML(w.ReportFile), w.ReportFile.Close())
	}
	if !w.JSON {
		return errors.Join(page, r.Text(w.Out))
	}
	return errors.Join(page, printJSON(w.Out, r))
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printFindings prints the findings of a check, and returns how many prevent a run.
func printFindings(w io.Writer, found []shadow.Finding, asJSON bool) (problems int, err error) {
	for _, f := range found {
		if f.Problem {
			problems++
		}
	}
	if asJSON {
		return problems, printJSON(w, found)
	}
	return problems, shadow.PrintFindings(w, found)
}

func (w *Watcher) verdictError() error {
	switch outcome := w.Run.Report().Outcome; outcome {
	case "PASS":
		return nil
	case "FAIL":
		return ErrFail
	default:
		return fmt.Errorf("%w: %s", ErrNoVerdict, outcome)
	}
}

// createReportFile creates a report's file at the beginning, so that a long run does not fail to write it at
// the end. Without a name it returns nil.
func createReportFile(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, terminal.WithHint(err, "choose another name for --html")
	}
	return f, nil
}

// removeEmptyReport removes a report's file that is empty, so that the next run can use its name.
func removeEmptyReport(page *os.File) {
	if page == nil {
		return
	}
	_ = page.Close() // already closed after a report
	if info, err := os.Stat(page.Name()); err == nil && info.Size() == 0 {
		_ = os.Remove(page.Name())
	}
}
