package rollout

import (
	"context"
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// The roll-out's own credentials are not passed on, wherever the URL has them.
func TestTarget(t *testing.T) {
	for from, want := range map[string]string{
		"postgres://postgres:secret@db2:5433/app?sslmode=require":                               "postgres://db2:5433?sslmode=require",
		"postgres://db2/app?user=u&password=secret&dbname=x&sslpassword=s&passfile=f&port=5433": "postgres://db2?port=5433",
		"postgres:///app?host=/run/postgresql&password=secret":                                  "postgres:///?host=%2Frun%2Fpostgresql",
	} {
		if at, err := target(&Node{URL: from}); err != nil || at != want {
			t.Errorf("%s leads to %s, not %s: %v", from, at, want, err)
		}
	}
}

// Only a refusal by the gateway closes the gate. Another server's response does not, nor does the end of the
// roll-out itself.
func TestReached(t *testing.T) {
	x := through{&control.Client{Admin: "gw:9470"}, &Cell{}}
	to := &Node{Name: "a2"}
	mustSay(t, asGate(x.reached(t.Context(), to, &control.Refusal{Message: "no"})), ErrGate, "the gateway at gw:9470 can't move clients to a2: no")
	other := errors.New("404 Not Found")
	err := asGate(x.reached(t.Context(), to, other))
	if mustSay(t, err, other, "ask the gateway at gw:9470"); errors.Is(err, ErrGate) {
		t.Errorf("%v must not be an ErrGate", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errKilled)
	if err := asGate(x.reached(ctx, to, context.Canceled)); !errors.Is(err, errKilled) || errors.Is(err, ErrGate) {
		t.Error(err)
	}
}
