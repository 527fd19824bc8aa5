package cluster

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Polls make new clients all the time, so these must not resolve names when they are made.
func TestPollsResolveNoNames(t *testing.T) {
	client := goredis.NewClient(askOptions(nil, "", ""))
	defer client.Close()
	if o := client.Options(); o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
		t.Errorf("go-redis looks up %s for its maintenance notifications", o.Addr)
	}
}
