package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Outcomes of a run that has ended without a PASS.
var (
	ErrFail      = errors.New("the verdict is FAIL")
	ErrNoVerdict = errors.New("the verdict is")
)

// Watcher follows a run, prints its progress and handles signals.
type Watcher struct {
	Run       *shadow.Run
	Signals   <-chan os.Signal
	Out, Errs io.Writer
	Page      *os.File // nil: no page
	JSON      bool
	Exit      bool   // return when the run is over
	OffFile   string // if this file exists, the mirror is turned off
	Every     time.Duration

	reported bool
	failed   error // of the report
	ending   int   // number of signals that ask for the end
}

// lookTime is the interval of the checks for OffFile.
const lookTime = 200 * time.Millisecond

// mirrorOn is printed when traffic begins to reach the targets.
const mirrorOn = "the mirror is on"

// begin starts the run, and watches it.
func (w *Watcher) begin(ctx context.Context, served <-chan error) error {
	if err := w.Run.Start(ctx); err != nil {
		return w.passOn(err, served)
	}
	fmt.Fprintln(w.Errs, mirrorOn)
	return w.Watch(served)
}

// passOn handles a run that can't begin: clients, current and later ones, are passed through until a signal.
// If no client has connected yet, it returns at once.
func (w *Watcher) passOn(err error, served <-chan error) error {
	w.Run.Off("the run did not begin")
	if w.Exit || w.Run.Clients().Total == 0 {
		return err
	}
	ui.PrintError(w.Errs, fmt.Errorf("the mirror is off: %w", err))
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

// Watch returns the verdict, or served's error if that comes first.
func (w *Watcher) Watch(served <-chan error) error {
	over := w.Run.Over()
	progress := time.NewTicker(w.Every)
	defer progress.Stop()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case err := <-served:
			return err
		case sig := <-w.Signals:
			if w.reported && sig != syscall.SIGUSR1 { // SIGUSR1 never cuts clients off
				return errors.Join(w.failed, w.verdict())
			}
			w.obey(sig)
		case <-look.C:
			w.lookForFile()
		case <-progress.C:
			if !w.reported {
				fmt.Fprintln(w.Errs, w.Run.Report().Line())
			}
		case <-over:
			over = nil
			w.reported = true
			if w.failed = w.print(); w.Exit || w.ending > 1 {
				return errors.Join(w.failed, w.verdict())
			}
			if w.failed != nil { // clients still need the pass-through
				fmt.Fprintln(w.Errs, "write the report:", w.failed)
			}
			fmt.Fprintln(w.Errs, "clients are passed through to production until the next SIGINT or SIGTERM")
		}
	}
}

func (w *Watcher) obey(sig os.Signal) {
	if sig == syscall.SIGUSR1 {
		w.Run.Off("SIGUSR1")
		return
	}
	if w.ending++; w.ending > 1 {
		w.Run.Off(sig.String() + ", twice") // a target may never answer
		return
	}
	w.Run.Finish(sig.String())
}

func (w *Watcher) lookForFile() {
	if w.OffFile == "" {
		return
	}
	if _, err := os.Stat(w.OffFile); err == nil {
		w.Run.Off("found the off-file " + w.OffFile)
	}
}

func (w *Watcher) print() error {
	r := w.Run.Report()
	var page error
	if w.Page != nil {
		page = errors.Join(r.HTML(w.Page), w.Page.Close())
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

func (w *Watcher) verdict() error {
	switch outcome := w.Run.Report().Outcome; outcome {
	case "PASS":
		return nil
	case "FAIL":
		return ErrFail
	default:
		return fmt.Errorf("%w %s", ErrNoVerdict, outcome)
	}
}

// createPage creates a report's file at the beginning, so that a long run does not fail to write it at the
// end. Without a name it returns nil.
func createPage(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, ui.WithHint(err, "choose another name for --html")
	}
	return f, nil
}

// dropPage removes an empty page, so that the next run can use its name.
func dropPage(page *os.File) {
	if page == nil {
		return
	}
	_ = page.Close() // already closed after a report
	if info, err := os.Stat(page.Name()); err == nil && info.Size() == 0 {
		_ = os.Remove(page.Name())
	}
}
