package testenv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// learning is the admin page's entry for a dictionary that is being collected, trained or used.
type learning struct {
	Gateway   string  `json:"gateway"`
	Rule      string  `json:"rule"`
	Method    string  `json:"method"`
	Direction string  `json:"direction"`
	Samples   int     `json:"samples"`
	Wanted    int     `json:"wanted"`
	Step      int     `json:"step"`
	Steps     int     `json:"steps"`
	Trying    string  `json:"trying"`
	Number    string  `json:"number"`
	Promised  float64 `json:"promised"`
}

func (l *learning) id() learning {
	return learning{Gateway: l.Gateway, Rule: l.Rule, Method: l.Method, Direction: l.Direction}
}

// SlowTraining is a configuration with which trainings take long on any machine and begin after 300 values.
const SlowTraining = "training: {min_samples: 300, poll: 50ms, interval: 1s, cpu: 5%}"

// TrainsVisibly waits until the admin page of a gateway with SlowTraining shows the progress of a training,
// then until it advances, and then until it shows the resulting dictionary. feed sends more values.
func TrainsVisibly(t testing.TB, g *GatewayServer, feed func()) {
	t.Helper()
	var at learning
	Eventually(t, "a training is on the page", func() bool {
		feed()
		i := slices.IndexFunc(toCome(t, g), func(l learning) bool { return l.Step > 0 })
		if i >= 0 {
			at = toCome(t, g)[i]
		}
		return at.Step > 0
	})
	if at.Gateway != "test" || at.Rule == "" || at.Trying == "" || at.Steps < at.Step || at.Samples < 1 || at.Wanted != 300 {
		t.Errorf("it says %+v", at)
	}
	Eventually(t, "the training gets on", func() bool {
		return slices.ContainsFunc(toCome(t, g), func(l learning) bool { return l.id() == at.id() && l.Step > at.Step && l.Trying != at.Trying })
	})
}

func toCome(t testing.TB, g *GatewayServer) []learning {
	t.Helper()
	var status struct {
		Learning []learning `json:"learning"`
	}
	AdminJSON(t, g.Admin, "/api/status", &status)
	return status.Learning
}

// HasDictionary waits until the admin page shows a dictionary that the gateway has made, with its number
// and its expected gain. The values to train it must have been sent before.
func HasDictionary(t testing.TB, g *GatewayServer) {
	t.Helper()
	Eventually(t, "a dictionary is on the page", func() bool {
		var status struct {
			Dictionaries []learning `json:"dictionaries"`
		}
		AdminJSON(t, g.Admin, "/api/status", &status)
		return slices.ContainsFunc(status.Dictionaries, func(l learning) bool {
			return l.Gateway == "test" && l.Rule != "" && len(l.Number) == 8 && l.Promised > 1
		})
	})
}

// Reading returns a small JSON value, such as millions of sensors send, that a dictionary compresses well.
func Reading(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	return fmt.Sprintf(`{"device":"thermo-%06d","tenant":"acme-industries","unit":"celsius","value":%d.%02d,"battery_percent":%d,`+
		`"firmware":"4.2.%d","site":{"country":"DE","plant":"north-%d","line":%d},"status":"OPERATIONAL","at":"2026-11-%02dT%02d:%02d:%02dZ"}`,
		r.IntN(1e6), r.IntN(90), r.IntN(100), r.IntN(100), r.IntN(12), r.IntN(9), r.IntN(20), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
}
