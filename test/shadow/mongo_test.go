package shadow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/cli"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The check reports what would make a run void before it starts, with a remedy and an exit code. The
// check's self-test repeats its slowdown as long as the machine is noisy, so outside make full a check that
// gets that far tries only once.
func TestMongoCheck(t *testing.T) {
	production, control, test := mongod(t, "production"), mongod(t, "control"), mongod(t, "test")
	for _, s := range []*mongotest.Server{production, control} {
		orders := s.Client(t).Database("shop").Collection("orders")
		if _, err := orders.InsertOne(t.Context(), bson.M{"_id": 1}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = orders.Drop(t.Context()) }()
	}
	check := func(control, test string) (said string, code int) {
		cmd := exec.CommandContext(t.Context(), testenv.Cinch(t), "shadow", "check", "--probe", "200ms", "--mongo", "127.0.0.1:0="+production.URI(), "--control", control, "--test", test)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	const lacks = "FIX  test lacks collections: shop.orders\n     hint: restore production's data"
	once := cli.Mirror{
		Servers: cli.Servers{Listeners: cli.Listeners{Mongo: "127.0.0.1:0=" + production.URI()}, Control: control.URI(), Test: test.URI()},
		Memory:  "16MiB",
		Config: shadow.Config{
			Margins: shadow.Margins{P50: 0.05, P99: 0.1}, Batch: time.Second, Bound: time.Minute, DataCheck: shadow.DataSample, DataTime: time.Minute, SelfTestPairs: 1,
		},
	}
	var out bytes.Buffer
	if problems, err := once.Check(t.Context(), 200*time.Millisecond, &out, io.Discard); err != nil || problems == 0 || !strings.Contains(out.String(), lacks) {
		t.Errorf("%d problems, %v: %s", problems, err, &out)
	}
	if testenv.IsFull() {
		if said, code := check(control.URI(), test.URI()); code != 3 || !strings.Contains(said, lacks) {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
	wrong := fmt.Sprintf("mongodb://nobody:s3cret@%s/", test.Addr)
	if said, code := check(control.URI(), wrong); code != 10 || !strings.Contains(said, "AuthenticationFailed") && !strings.Contains(said, "auth error") || strings.Contains(said, "s3cret") {
		t.Errorf("with a wrong password: exit code %d: %s", code, said)
	}
	if said, code := check(control.URI(), "mongodb://127.0.0.1:1"); code != 10 {
		t.Errorf("without a server: exit code %d: %s", code, said)
	}
}
