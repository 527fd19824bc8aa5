package rollout

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A roll-out reaches its end although its process is killed at any moment of any step, again and again, and the gateway
// is killed too. There is one primary, and nothing is lost.
func TestKilledWithin(t *testing.T) {
	testenv.Full(t)
	const rounds, lives = 10, 12
	seed := testenv.Seed(t)
	for round := range rounds {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			killedWithin(t, rand.New(rand.NewPCG(seed, uint64(round))), lives)
		})
	}
}

func killedWithin(t *testing.T, random *rand.Rand, lives int) {
	c := newCell(t)
	g, cs := behind(t, c)
	file := cellFile(t, c)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tries := lives + 5
	for life := 0; ; life++ {
		u := startRolloutProcess(t, exec.CommandContext(t.Context(), exe, "tool", file))
		victim := primarySteps[random.IntN(len(primarySteps))]
		for s, ok := u.next(); ok; s, ok = u.next() {
			u.goOn()
			if life < lives && s == (stepReport{Step: victim}) {
				// The seed determines the moment.
				time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
				_ = u.cmd.Process.Kill()
				t.Logf("killed within %s", victim)
				if random.IntN(3) == 0 {
					restart(t, g, "")
				}
			}
		}
		onePrimaryAtMost(t, c)
		if u.err == nil {
			break
		}
		if life == tries {
			t.Fatalf("it does not come to an end: %s", u.said.String())
		}
		if life >= lives {
			t.Log(u.lastError())
		}
	}
	cs.goesOn(t)
	committed, lost, twice := cs.judge(t, c.Nodes[0].Replacement)
	t.Logf("%d committed, %d lost, %d twice", committed, lost, twice)
	if got := onePrimary(t, c); got != "a2" || lost+twice > 0 {
		t.Errorf("the primary is %s; %d lost, %d twice", got, lost, twice)
	}
}

// cellFile writes the cell's file for another process.
func cellFile(t *testing.T, c *Cell) string {
	t.Helper()
	node := func(n *Node) map[string]any {
		return map[string]any{"name": n.Name, "url": n.URL, "directory": n.Directory, "run": n.Run, "bin": n.Bin, "options": n.Options}
	}
	old := node(&c.Nodes[0])
	old["replacement"] = node(c.Nodes[0].Replacement)
	text, err := json.Marshal(map[string]any{
		"cell": c.Name, "state": c.State, "nodes": []any{old}, "gates": map[string]any{"catch_up": "20s"},
		"gateway": map[string]any{"admin": c.Gateway.Admin, "token_file": c.Gateway.TokenFile, "unmovable": "end"},
	})
	file := filepath.Join(t.TempDir(), "cell.yaml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
