package shadow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// checked is a Protocol whose data are compared by a function.
type checked struct {
	*kv
	how func(context.Context) ([]TableState, error)
}

func (c checked) CheckData(ctx context.Context, _ DataCheck, _ ...*Target) ([]TableState, error) {
	return c.how(ctx)
}

var errNoServer = errors.New("no server")

// A PASS says that the data are alike, so it is withheld if the data check is incomplete.
func TestPassNeedsTheData(t *testing.T) {
	var r *Run
	finish := func() { r.Finish("the traffic is over") }
	found := func(states ...TableState) func(context.Context) ([]TableState, error) {
		return func(context.Context) ([]TableState, error) { return states, nil }
	}
	equal := TableState{Name: "a", State: TableEqual}
	for name, c := range map[string]struct {
		check   DataCheck
		how     func(context.Context) ([]TableState, error)
		end     func()
		outcome string
		why     string
	}{
		"all alike":         {DataSample, found(equal), finish, "PASS", ""},
		"a table differs":   {DataSample, found(equal, TableState{Name: "b", State: TableDiffers}), finish, "VOID", "b"},
		"one was not read":  {DataFull, found(equal, TableState{Name: "b", State: TableSkipped, Why: "no right"}), finish, "INCONCLUSIVE", "b: not compared, no right"},
		"only production's": {DataFull, found(TableState{Name: "b", State: TableSkipped, Production: TableDiffers}), finish, "PASS", ""},
		"a server fails": {DataSample, func(context.Context) ([]TableState, error) {
			return []TableState{equal}, errNoServer
		}, finish, "INCONCLUSIVE", "no server"},
		"no time is left": {DataSample, func(ctx context.Context) ([]TableState, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, finish, "INCONCLUSIVE", "--data-check-time"},
		"turned off meanwhile": {DataSample, func(ctx context.Context) ([]TableState, error) {
			r.Off("SIGUSR1")
			return nil, ctx.Err()
		}, finish, "INCONCLUSIVE", "turned off"},
		"turned off before": {DataSample, found(equal), func() { r.Off("SIGUSR1") }, "INCONCLUSIVE", "turned off"},
		"not asked for":     {DataOff, nil, finish, "PASS", ""},
	} {
		cfg := Config{Protocol: checked{newKV(), c.how}, DataCheck: c.check, Bound: time.Hour}
		if name == "no time is left" {
			cfg.DataTime = time.Nanosecond
		}
		r = New(cfg)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		settle(t, r, 0)
		r.ended = "" // the test case ends it
		r.mu.Unlock()
		c.end()
		<-r.Over()
		var text bytes.Buffer
		got := r.Report()
		if err := got.Text(&text); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(text.String(), "\nmetric")
		if got.Outcome != c.outcome || !strings.Contains(first, c.why) {
			t.Errorf("%s: %s", name, first)
		}
	}
}
