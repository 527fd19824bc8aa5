package page

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// browser is the Chromium that tests share, driven by node/driver.cjs. Its methods end the test if they
// fail.
type browser struct {
	t *testing.T
	*driver
}

type driver struct {
	mu   sync.Mutex // one command at a time
	to   io.Writer
	from *bufio.Reader
	tabs atomic.Int32
}

const (
	driverTime = 3 * time.Minute // limit for a command, on a busy machine
	pause      = 250 * time.Millisecond
	maxAnswer  = 16 << 20 // bytes
)

// chromium returns the shared Chromium and starts it if needed. Without Chromium or Node.js the test is
// skipped, or fails when CI=true.
func chromium(t *testing.T) *browser {
	t.Helper()
	return &browser{t, testenv.Shared(t, "chromium", startChromium)}
}

func startChromium(t testing.TB) *driver {
	t.Helper()
	program, node := testenv.Program(t, "chromium"), testenv.Program(t, "node")
	cmd := exec.Command(node, "node/driver.cjs", program)
	cmd.Env = append(os.Environ(), "NODE_PATH="+testenv.NodeModules(t, "node/package.json"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(cmd, in) })
	d := &driver{to: in, from: bufio.NewReaderSize(out, 1<<20)}
	var version string
	if err := d.answer(&version); err != nil {
		t.Fatal(err)
	}
	t.Logf("Chromium %s", version)
	return d
}

// end closes Chromium through the driver, and kills the driver if that takes too long.
func end(cmd *exec.Cmd, in io.Closer) {
	_ = in.Close()
	kill := time.AfterFunc(driverTime/6, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	kill.Stop()
}

type command map[string]any

func (b *browser) do(c command, result any) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	line, err := json.Marshal(c)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(line, '\n')); err != nil {
		b.t.Fatalf("driver: %v", err)
	}
	if err := b.answer(result); err != nil {
		b.t.Fatalf("%s: %v", c["do"], err)
	}
}

// answer reads a line from the driver into result.
func (d *driver) answer(result any) error {
	type read struct {
		line []byte
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := d.from.ReadBytes('\n')
		got <- read{line, err}
	}()
	var r read
	select {
	case r = <-got:
	case <-time.After(driverTime):
		return fmt.Errorf("the driver has not answered in %v", driverTime)
	}
	if r.err != nil || len(r.line) > maxAnswer {
		return fmt.Errorf("driver: %v, %d bytes", r.err, len(r.line))
	}
	a := struct {
		Result json.RawMessage
		Error  string
	}{}
	if err := json.Unmarshal(r.line, &a); err != nil {
		return fmt.Errorf("driver: %v\n%s", err, r.line)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// tab is a window with its own profile.
type tab struct {
	*browser
	name string
	url  string
}

// view describes how a tab is opened.
type view struct {
	url           string
	width, height int
	dark          bool
	password      string // typed by the user when prompted
}

func scheme(dark bool) string {
	if dark {
		return "dark"
	}
	return "light"
}

func (b *browser) open(t *testing.T, v view) *tab {
	t.Helper()
	w := &tab{&browser{t, b.driver}, fmt.Sprint("tab", b.tabs.Add(1)), v.url}
	w.do(command{"do": "open", "tab": w.name, "url": v.url, "width": v.width, "height": v.height, "scheme": scheme(v.dark), "password": v.password}, nil)
	t.Cleanup(w.close)
	return w
}

// close closes a tab, which must be done only once. An open tab that shows figures uses CPU time.
func (w *tab) close() {
	w.t.Helper()
	w.do(command{"do": "close", "tab": w.name}, nil)
}

// eval evaluates a JavaScript expression and stores the value in result.
func (w *tab) eval(js string, result any) {
	w.t.Helper()
	w.do(command{"do": "eval", "tab": w.name, "js": js}, result)
}

func (w *tab) text(js string) (s string) {
	w.t.Helper()
	w.eval(js, &s)
	return s
}

func (w *tab) is(js string) (yes bool) {
	w.t.Helper()
	w.eval("Boolean("+js+")", &yes)
	return yes
}

// becomes waits until a JavaScript condition is true on the page.
func (w *tab) becomes(what, js string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			s := w.seen()
			w.t.Logf("waiting for %s; the page says\n%s\nconsole: %q\n%+v", what, w.text("document.body.innerText"), s.Messages, s.Requests[max(0, len(s.Requests)-40):])
		}
	}()
	eventually(w.t, what+" on the page", func() bool { return w.is(js) })
}

// eventually is testenv.Eventually with longer pauses, since each attempt lays out a page or makes a
// document while other tests run.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range int(driverTime / pause) {
		if ok() {
			return
		}
		time.Sleep(pause)
	}
	t.Fatalf("never: %s", what)
}

func (w *tab) press(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.do(command{"do": "press", "tab": w.name, "key": key}, nil)
	}
}

func (w *tab) click(selector string) {
	w.t.Helper()
	w.do(command{"do": "click", "tab": w.name, "selector": selector}, nil)
}

func (w *tab) resize(width, height int) {
	w.t.Helper()
	w.do(command{"do": "size", "tab": w.name, "width": width, "height": height}, nil)
}

func (w *tab) theme(dark bool) {
	w.t.Helper()
	w.do(command{"do": "scheme", "tab": w.name, "scheme": scheme(dark)}, nil)
}

// shot writes a screenshot of the window, or of the full page, to a file.
func (w *tab) shot(path string, full bool) {
	w.t.Helper()
	w.do(command{"do": "shot", "tab": w.name, "path": path, "full": full}, nil)
}

type request struct {
	URL, Type, Method, Failed string
	Status, Bytes             int
}

// seen holds all requests, console messages and violations of a tab since it was opened.
type seen struct {
	Requests             []request
	Messages, Violations []string
}

func (w *tab) seen() (s seen) {
	w.t.Helper()
	w.do(command{"do": "seen", "tab": w.name}, &s)
	return s
}

// nothingForeign fails the test if the tab has loaded something from another origin, or has logged an
// error.
func (w *tab) nothingForeign() {
	w.t.Helper()
	own, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	s := w.seen()
	if len(s.Requests) == 0 {
		w.t.Error("no requests were seen")
	}
	for _, r := range s.Requests {
		if u, err := url.Parse(r.URL); err != nil || u.Scheme != "data" && (u.Host != own.Host || u.Scheme != own.Scheme) {
			w.t.Errorf("the page asked for %s %s", r.Method, r.URL)
		}
		if r.Status >= 400 {
			w.t.Errorf("%s %s: %d", r.Method, r.URL, r.Status)
		}
	}
	if len(s.Messages)+len(s.Violations) > 0 {
		w.t.Errorf("console: %s\nContent-Security-Policy: %s", strings.Join(s.Messages, "\n"), strings.Join(s.Violations, "\n"))
	}
}

// axeTags are the rules of axe-core that must find nothing.
var axeTags = []string{"wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"}

type finding struct {
	Rule, Impact, Help string
	Nodes              []string
}

// accessible fails the test if axe-core finds a violation.
func (w *tab) accessible(when string) {
	w.t.Helper()
	var found struct {
		Violations, Incomplete []finding
		Passes                 int
	}
	w.do(command{"do": "axe", "tab": w.name, "tags": axeTags}, &found)
	if found.Passes < 10 {
		w.t.Errorf("%s: axe-core has looked at %d rules only", when, found.Passes)
	}
	for _, f := range found.Violations {
		w.t.Errorf("%s: axe-core: %s (%s): %s\n  %s", when, f.Rule, f.Impact, f.Help, strings.Join(f.Nodes, "\n  "))
	}
	for _, f := range found.Incomplete {
		w.t.Logf("%s: axe-core could not decide on %s of %d elements, such as %.300s", when, f.Rule, len(f.Nodes), f.Nodes[0])
	}
}

// cpu is CPU time that Chromium has used, in seconds.
type cpu struct {
	Task      float64            // the main thread of the tab
	Heap      float64            // bytes
	Processes map[string]float64 // by type
}

func (w *tab) cpu() (c cpu) {
	w.t.Helper()
	w.do(command{"do": "cpu", "tab": w.name}, &c)
	return c
}
