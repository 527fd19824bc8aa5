package redis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A server that can't save its data refuses writes, and also PING. It counts as ready: it serves reads, and
// its error tells writers the reason, which they would not see if the gateway got no clients.
func TestReadyWithoutSaving(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	_, g := startGateway(t, sock)
	if err := os.Mkdir(filepath.Join(filepath.Dir(sock), "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	direct.ConfigSet(ctx, "save", "3600 1000000")
	direct.BgSave(ctx)
	testenv.Eventually(t, "a save fails", func() bool {
		return strings.Contains(direct.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	if err := direct.Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "MISCONF") {
		t.Fatalf("PING: %v", err)
	}
	if _, err := g.Ready(ctx); err != nil {
		t.Error(err)
	}
}
