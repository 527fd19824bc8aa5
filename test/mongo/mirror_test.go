package mongo

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	shadowmongo "github.com/cinch-layer/cinch/internal/switchover/shadow/mongo"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// TestScenarioThroughMirror runs the scenario of each language through cinch shadow. No operation is
// answered differently, is lost, or ends the mirroring of its connection. Change streams are left out.
func TestScenarioThroughMirror(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		for _, compressors := range []string{"", "&compressors=" + l.compressors, "&compressors=zlib"} {
			t.Run(l.name+strings.ReplaceAll(compressors, "&", " "), func(t *testing.T) {
				if l.name != "python" || compressors != "" {
					testenv.Full(t)
				}
				program, args, env := l.command(t)
				run, addr := mirrored(t)
				cmd := exec.CommandContext(t.Context(), program, append(args, "mongodb://"+addr+"/?directConnection=true"+compressors)...)
				cmd.Env = append(os.Environ(), env...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
					t.Fatalf("%v\n%s", err, out)
				}
				r := shadowtest.Settle(t, run)
				if r.Compared.Equal < 10 || r.Compared.Diverged > 0 || len(r.Why) > 0 || r.Left["change streams"] == 0 {
					t.Errorf("%+v, not mirrored: %v, left out %v", r.Compared, r.Why, r.Left)
				}
			})
		}
	}
}

// mirrored starts a mirror of three servers, each a replica set with one member, and returns it with the
// address for clients.
func mirrored(t *testing.T) (*shadow.Run, string) {
	t.Helper()
	cfg := shadow.Config{Batch: 200 * time.Millisecond, Bound: time.Minute, Patience: time.Minute}
	target := func() *mongotest.Server { return mongotest.Start(t, mongotest.Config{ReplicaSet: "rs0"}) }
	for up, server := range map[*endpoint.Upstream]*mongotest.Server{&cfg.Production: setOfOne(t), &cfg.Control: target(), &cfg.Test: target()} {
		var err error
		if *up, err = shadowmongo.ParseURI(server.URI()); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the targets take writes", func() (done bool) {
		p, err := shadowmongo.New(t.Context(), cfg.Control, cfg.Test)
		cfg.Protocol = p
		return err == nil
	})
	return shadowtest.Start(t, cfg)
}
