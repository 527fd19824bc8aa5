package rollout

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

// maintain begins or ends Patroni's maintenance mode, as patronictl pause and resume do.
func (p *patroniCell) maintain(t *testing.T, on bool) {
	t.Helper()
	body := `{"pause": null}`
	if on {
		body = `{"pause": true}`
	}
	testenv.Eventually(t, "a member takes it", func() bool {
		for _, n := range []*Node{&p.Nodes[0], p.Nodes[0].Replacement} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, n.Patroni.API+"/config", strings.NewReader(body))
			if err != nil {
				return false
			}
			r.SetBasicAuth("patroni", "secret")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				continue
			}
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		return false
	})
}

// If maintenance mode begins before the leader has changed, the roll-out stops with an error that says so, and clients
// continue at the primary. After maintenance the roll-out continues.
func TestPatroniPaused(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	for _, one := range []struct {
		step Step
		says string // "": it need not stop
		then string
	}{
		{StepCheck, "is in maintenance mode", "a"},
		{StepStart, "is in maintenance mode", "a"},
		{StepHold, "is in maintenance mode", "a"},
		{StepPromote, "is in maintenance mode", "a"},
		{StepFollow, "", "a2"},
	} {
		t.Run(string(one.step), func(t *testing.T) {
			t.Parallel()
			p := newPatroniCell(t, "")
			p.Gates.Shutdown = config.Duration(answerTime)
			mustExec(t, &p.Nodes[0], accounts)
			g := &gate{url: p.Nodes[0].URL}
			stop := g.transfers(t, 2, false)
			r := &Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}
			r.dies = at(one.step, false, func() { p.maintain(t, true) })
			if one.step == StepCheck {
				r.dies = nil
				p.maintain(t, true)
			}
			err := r.Run(t.Context())
			if one.says != "" {
				mustSay(t, err, nil, one.says)
			}
			t.Log(err)
			if got := onePrimary(t, p.Cell); got != one.then || g.held {
				t.Errorf("the primary is %q, clients are held: %t", got, g.held)
			}
			p.maintain(t, false)
			for range 3 {
				if err = (&Rollout{Cell: p.Cell, clients: g, Yes: true, Tell: telling(t)}).Run(t.Context()); err == nil {
					break
				}
			}
			committed := stop()
			if got := onePrimary(t, p.Cell); got != "a2" || err != nil {
				t.Fatalf("the primary is %q: %v", got, err)
			}
			mustHold(t, p.Nodes[0].Replacement, committed, 0)
		})
	}
}
