package server

import (
	"errors"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/observe/admin"
)

func TestVerdict(t *testing.T) {
	away := errors.New("unreachable")
	found := []health{{gateway: "a", notes: []string{"note"}}, {gateway: "b", err: away}}
	for _, c := range []struct {
		gateway string
		any     bool
		notes   []string
		err     string
	}{
		{"", false, []string{"gateway a: note"}, "gateway b: unreachable"},
		{"", true, []string{"gateway a: note", "not ready: gateway b: unreachable"}, ""},
		{"a", false, []string{"gateway a: note"}, ""},
		{"b", false, nil, "gateway b: unreachable"},
		{"b", true, nil, "gateway b: unreachable"},
	} {
		notes, err := combineHealth(found, c.gateway, c.any)
		if !slices.Equal(notes, c.notes) || err == nil != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q, any %v: %q, %v", c.gateway, c.any, notes, err)
		}
	}
	if _, err := combineHealth([]health{{gateway: "b", err: away}}, "", true); !errors.Is(err, away) {
		t.Error("none is ready:", err)
	}
}

func TestReadyRefusesQuestions(t *testing.T) {
	rules := "[]"
	p, _, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if _, err := p.ready(admin.ReadyQuery{Gateway: "b"}); !errors.Is(err, admin.ErrNoGateway) {
		t.Error(err)
	}
	if _, err := p.ready(admin.ReadyQuery{Policy: "most"}); !errors.Is(err, admin.ErrNoPolicy) {
		t.Error(err)
	}
	if _, err := p.ready(admin.ReadyQuery{Gateway: "a", Policy: "any"}); err != nil {
		t.Error(err)
	}
	p.draining.Store(true)
	if _, err := p.ready(admin.ReadyQuery{Gateway: "a"}); !errors.Is(err, errDraining) {
		t.Error(err)
	}
}
