package rollout

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

var cuts = flag.Bool("rollout.cuts", false, "cut links for a minute each, at each step, with the times that a cell has by default")

// aCut is a link that is cut when a step begins, and healed when the tool has given up or has ended.
type aCut struct {
	step  Step
	link  link
	abort bool // aborted afterwards, if still possible
}

var links = []link{{onTool, onGateway}, {onTool, onOld}, {onTool, onNew}, {onGateway, onOld}, {onGateway, onNew}, {onOld, onNew}}

// triedCuts returns a cut of each link at each step.
func triedCuts() (list []aCut) {
	for i, step := range primarySteps {
		for j, l := range links {
			list = append(list, aCut{step, l, (i+j)%2 == 1})
		}
	}
	return list
}

// A link that is cut at any step costs another try, or the roll-out is aborted. There are never two
// primaries, and nothing is lost or stored twice.
func TestCuts(t *testing.T) {
	testenv.Full(t)
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("cut", func(t *testing.T) {
		for _, c := range triedCuts() {
			t.Run(strings.ReplaceAll(string(c.step)+"/"+c.link.String(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				row := c.run(t, newWorld(t))
				mu.Lock()
				defer mu.Unlock()
				rows[string(c.step)+c.link.String()] = row
			})
		}
	})
	t.Logf("%-10s %-14s %-26s %9s %9s %5s %6s", "step", "link cut", "then", "primaries", "committed", "lost", "twice")
	for _, c := range triedCuts() {
		t.Logf("%-10s %-14s %s", c.step, c.link, rows[string(c.step)+c.link.String()])
	}
}

func (c aCut) run(t *testing.T, w *world) (row string) {
	eyes := w.watch()
	clients := w.clients(2)
	how := w.cutAndGoOn(c)
	if how == "" && c.abort {
		how = w.abort()
	}
	for try := 1; how == ""; try++ {
		u := w.tool(t)
		for _, ok := u.next(); ok; _, ok = u.next() {
			u.goOn()
		}
		switch {
		case u.err == nil:
			how = fmt.Sprintf("resumed, %d more runs", try)
		case try == 5:
			t.Fatalf("it does not come to an end: %s", u.said.String())
		}
	}
	clients.goesOn(t)
	primaries := eyes()
	committed, lost, twice := clients.judge(t, w.primary(t))
	if primaries > 1 || lost > 0 || twice > 0 {
		t.Errorf("%d primaries, %d lost, %d twice", primaries, lost, twice)
	}
	return fmt.Sprintf("%-26s %9d %9d %5d %6d", how, primaries, committed, lost, twice)
}

// cutAndGoOn runs the tool, and cuts the link when the step begins. It returns "" if the tool failed, and "went on" if
// not.
func (w *world) cutAndGoOn(c aCut) (how string) {
	healed := make(chan struct{})
	cut := false
	var u *rolloutProcess
	for try := 0; !cut; try++ { // on a busy machine an earlier step may fail
		if try == 5 {
			w.t.Fatalf("it has not come to %s: %s", c.step, u.said.String())
		}
		u = w.tool(w.t)
		for s, ok := u.next(); ok; s, ok = u.next() {
			w.t.Log(s)
			if s == (stepReport{Step: c.step}) && !cut {
				cut = true
				w.net.cut(c.link)
				if *cuts {
					time.AfterFunc(time.Minute, func() { w.net.heal(c.link); close(healed) })
				}
			}
			u.goOn()
		}
	}
	if *cuts {
		<-healed
	} else {
		w.net.heal(c.link)
	}
	if u.err == nil {
		return "went on"
	}
	w.t.Log(u.lastError())
	return ""
}

func (u *rolloutProcess) lastError() string {
	said := u.said.String()
	return said[strings.LastIndex(said, "ERROR")+len("ERROR"):]
}

// abort aborts the roll-out, and accepts that it is too late for that.
func (w *world) abort() string {
	exe := testenv.Cinch(w.t)
	out, err := w.net.command(onTool, exe, "rollout", "abort", w.file).CombinedOutput()
	if err == nil {
		return "aborted"
	}
	if !strings.Contains(string(out), ErrNoWayBack.Error()) {
		w.t.Errorf("abort: %s", out)
	}
	return ""
}

// watch polls both servers. The function that it returns ends that, and returns the highest number of
// simultaneous primaries.
func (w *world) watch() (stop func() int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	over := make(chan int)
	takes := func(n *Node) bool {
		standby, err := n.inRecovery(ctx)
		return err == nil && !standby
	}
	go func() {
		most := 0
		for ctx.Err() == nil {
			now := 0
			switch old, made := takes(&w.old), takes(&w.made); {
			case old && made && takes(&w.old): // still, after the new one was a primary
				now = 2
			case old || made:
				now = 1
			}
			most = max(most, now)
			_ = pause(ctx)
		}
		over <- most
	}()
	return func() int {
		cancel()
		return <-over
	}
}
