package survive

import (
	"context"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestDumpAndRestore moves values to another store, which lacks their dictionary until it is imported.
func TestDumpAndRestore(t *testing.T) {
	here, there := testenv.Redis(t), testenv.Redis(t)
	d := newDict(t, "dump")
	publish(t, here.Addr, d)
	gateway := gatewayWith(t, here.Addr, d)
	through, direct := connect(t, gateway.Addr), connect(t, here.Addr)
	waitForUse(t, through, direct, d)
	want := valueOf("moved", 7)
	must(t, through.Set(t.Context(), "moved", want, 0).Err())
	must(t, through.HSet(t.Context(), "hash", "f", want).Err())
	must(t, through.XAdd(t.Context(), &goredis.XAddArgs{Stream: "stream", Values: []any{"f", want}}).Err())
	other := freshGateway(t, there.Addr)
	elsewhere := connect(t, other.Addr)
	for _, key := range []string{"moved", "hash", "stream"} {
		dump, err := through.Dump(t.Context(), key).Result()
		must(t, err)
		must(t, elsewhere.Restore(t.Context(), key, 0, dump).Err())
	}
	reads := func() map[string]error {
		get, err := elsewhere.Get(t.Context(), "moved").Result()
		field, hashErr := elsewhere.HGet(t.Context(), "hash", "f").Result()
		entries, streamErr := elsewhere.XRange(t.Context(), "stream", "-", "+").Result()
		entry := ""
		if streamErr == nil {
			entry = entries[0].Values["f"].(string)
		}
		for key, got := range map[string]string{"moved": get, "hash": field, "stream": entry} {
			if got != "" && got != want {
				t.Errorf("%s reads as %.80q", key, got)
			}
		}
		return map[string]error{"moved": err, "hash": hashErr, "stream": streamErr}
	}
	number := fmt.Sprintf("%08x", d.Number())
	for key, err := range reads() {
		if err == nil || !strings.HasPrefix(err.Error(), "ERR cinch: compressed value can't be decompressed: ") || strings.Contains(err.Error(), number) {
			t.Errorf("%s without its dictionary: %v, want an error that does not name %s", key, err, number)
		}
	}
	if out := command(t, 12, "verify", there.URL()); !strings.Contains(out, number) {
		t.Errorf("verify doesn't name the dictionary:\n%s", out)
	}
	bundle := t.TempDir() + "/bundle"
	command(t, 1, "dict", "import", there.URL(), t.TempDir())
	if out := command(t, 0, "dict", "export", here.URL(), "--all", bundle); !strings.Contains(out, bundle+"/"+number+".dict") {
		t.Errorf("it is not in the bundle:\n%s", out)
	}
	command(t, 0, "dict", "export", here.URL(), "--all", bundle) // a second time
	command(t, 0, "dict", "export", here.URL(), number, t.TempDir()+"/moved.dict")
	command(t, 0, "dict", "import", there.URL(), bundle)
	testenv.Eventually(t, "the gateway finds it", func() bool { return reads()["moved"] == nil })
	for key, err := range reads() {
		if err != nil {
			t.Errorf("%s with its dictionary: %v", key, err)
		}
	}
	command(t, 0, "verify", there.URL())
	if got, err := connect(t, freshGateway(t, there.Addr).Addr).Get(context.Background(), "moved").Result(); err != nil || got != want {
		t.Errorf("through a fresh gateway: %.80q, %v", got, err)
	}
}
