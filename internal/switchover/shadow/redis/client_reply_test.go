package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// CLIENT REPLY ends the mirroring of its connection, since replies can't be matched afterwards. Servers from
// 7.0 on list it as a subcommand.
func TestClientReplyEndsTheMirroring(t *testing.T) {
	p, err := New(t.Context(), upstream(t, testenv.Redis(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reader().Request(resp.AppendCommand(nil, "CLIENT", "REPLY", "OFF"), time.Now()); !errors.Is(err, shadow.ErrUnmirrored) {
		t.Errorf("%v", err)
	}
}
