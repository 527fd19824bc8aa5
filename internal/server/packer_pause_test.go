package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/test/testenv"
)

// packing returns a process with gateways to one store. The gateways "packs" and "off" are configured to pack.
func packing(t *testing.T) (*Process, *miniredis.Miniredis) {
	t.Helper()
	store := miniredis.RunT(t)
	text := fmt.Sprintf(`admin: {listen: off}
gateways:
  - {name: packs, protocol: redis, listen: "127.0.0.1:0", upstream: "redis://%[1]s", rules: [{setting: lz4}], pack: {background: true}}
  - {name: "off", protocol: redis, listen: "127.0.0.1:0", upstream: "redis://%[1]s", rules: [{setting: lz4}], enabled: false, pack: {background: true}}
  - {name: plain, protocol: redis, listen: "127.0.0.1:0", upstream: "redis://%[1]s", rules: [{setting: lz4}]}
  - {name: calls, protocol: grpc, listen: "127.0.0.1:0", upstream: "grpc://%[1]s", rules: [{setting: lz4}]}
`, store.Addr())
	p, err := New(Options{
		Load: func() (*config.Config, error) { return config.Parse("", []byte(text), nil) },
		Log:  &testenv.Log{},
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, store
}

// Gateways that can't be paused return the reason; pausing is logged once.
func TestPackActions(t *testing.T) {
	p, store := packing(t)
	actions := map[string]admin.Action{}
	for _, a := range p.packActions() {
		actions[a.Name] = a
	}
	for posted, want := range map[string]struct {
		err  error
		hint string
	}{
		"":                        {errNoGatewayGiven, "post {"},
		"{}":                      {errNoGatewayGiven, ""},
		`{"gateway": 7}`:          {errNoGatewayGiven, ""},
		`{"gate": "packs"}`:       {errNoGatewayGiven, ""},
		`{"gateway": "somebody"}`: {errUnknownGateway, "gateways: packs, off, plain, calls"},
		`{"gateway": "plain"}`:    {errNoPacking, "pack: {background: true}"},
		`{"gateway": "calls"}`:    {errNoPacking, "Redis and Tarantool"},
		`{"gateway": "` + strings.Repeat("x", 9999) + `"}`: {errUnknownGateway, ""},
	} {
		for name, a := range actions {
			_, err := a.Do(t.Context(), []byte(posted))
			if !errors.Is(err, want.err) || !strings.Contains(err.Error(), want.hint) || len(err.Error()) > 300 {
				t.Errorf("%s %.40s: %v", name, posted, err)
			}
		}
	}
	do := func(action, gateway string, paused bool) {
		t.Helper()
		got, err := actions[action].Do(t.Context(), []byte(`{"gateway": "`+gateway+`"}`))
		now, _ := got.(pauseState)
		if err != nil || now.Gateway != gateway || now.Paused != paused || (now.PausedAt != nil) != paused || store.Exists("cinch:pack:paused") != paused {
			t.Errorf("%s %s: %+v, %v", action, gateway, got, err)
		}
	}
	do("pack-resume", "packs", false)
	do("pack-pause", "packs", true)
	do("pack-pause", "off", true) // of the same store
	if d := p.describe(); !d.Gateways[0].Pack.Paused || d.Gateways[0].Pack.PausedAt == nil {
		t.Errorf("%+v", d.Gateways[0].Pack)
	}
	do("pack-resume", "off", false)
	do("pack-resume", "packs", false)
	if d := p.describe(); d.Gateways[0].Pack.Paused || d.Gateways[0].Pack.PausedAt != nil {
		t.Errorf("%+v", d.Gateways[0].Pack)
	}
	for _, answer := range []string{"NOPERM this user has no permissions", ""} {
		want := "refuses, so nothing was changed"
		if store.SetError(answer); answer == "" {
			want = "does not answer, so nothing was changed"
			store.Close()
		}
		for name, a := range actions {
			if _, err := a.Do(t.Context(), []byte(`{"gateway": "packs"}`)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %q: %v", name, answer, err)
			}
		}
	}
}
