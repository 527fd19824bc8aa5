package mongo

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// past returns the number of connections in mongod's log, from an offset on, that came through the relay.
// others holds the log lines of connections that came neither through it nor from mongod itself.
func past(t *testing.T, r *testenv.Relay, log string, from int64) (through int, others map[string]string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	others = map[string]string{}
	for raw := range bytes.Lines(text[from:]) {
		var line struct {
			Msg  string
			Attr struct {
				Remote string
				Doc    struct{ Driver struct{ Name string } }
			}
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		at := line.Attr.Remote
		switch {
		case line.Msg == "Connection accepted" && r.Came(at):
			through++
		case line.Msg == "Connection accepted":
			others[at] = string(raw)
		case line.Msg == "client metadata" && others[at] != "":
			others[at] += string(raw)
			if name := line.Attr.Doc.Driver.Name; strings.HasPrefix(name, "NetworkInterfaceTL-") || name == "MongoDB Internal Client" {
				delete(others, at)
			}
		}
	}
	return through, others
}
