package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/observe/top"
	"github.com/cinch-layer/cinch/test/testenv"
)

// top shows the clients' concurrent requests.
func TestTop(t *testing.T) {
	redis := testenv.Redis(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: redis.Addr, Force: true})
	client := goredis.NewClient(&goredis.Options{Addr: g.Addr, DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	value := strings.Repeat("cinch ", 500)
	var out, errs bytes.Buffer
	looking := make(chan int, 1)
	go func() {
		looking <- run([]string{"top", g.Admin, "--count", "1", "--json"}, strings.NewReader(""), &out, &errs)
	}()
	for code := -1; code < 0; {
		if err := client.Set(t.Context(), "k", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		select {
		case code = <-looking:
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errs.String())
			}
		case <-time.After(time.Millisecond):
		}
	}
	var answer struct{ Gateways []top.Gateway }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || len(answer.Gateways) != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	seen := answer.Gateways[0]
	if seen.Name != "redis" || seen.Trouble != "" || seen.Before <= 0 || seen.After >= seen.Before/4 || seen.P99 == nil || seen.Connections == 0 {
		t.Errorf("%+v", seen)
	}
	if code := run([]string{"top", "127.0.0.1:1"}, strings.NewReader(""), &out, &errs); code != exitUnreachable {
		t.Errorf("exit code %d without a page", code)
	}
}
