package search

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// cli runs a command of the CLI and returns its output.
func cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Cinch(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("cinch %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Packers leave indexed hashes plain, and the plan predicts no saving for them.
func TestPackersAndPlansLeaveIndexedHashes(t *testing.T) {
	server := servers["stack"](t)
	direct := client(t, server.Addr)
	all(t, direct, create("idx", "doc:"))
	all(t, direct, documents("doc:", 100)...)
	all(t, direct, documents("other:", 100)...)
	want := answers(t, direct, "idx", 100)

	if testenv.IsFull() {
		text := cli(t, "plan", server.URL(), "--reads", "1000", "--writes", "1000", "--max-time", "30s")
		if !strings.Contains(text, "under a search index") {
			t.Errorf("the plan does not say why doc:* is left alone:\n%s", text)
		}
	}

	text := cli(t, "pack", server.URL())
	if sealedFields(t, direct, "other:*") == 0 || !strings.Contains(text, "under a search index") {
		t.Errorf("hashes that no index covers were not packed, or nothing was left:\n%s", text)
	}
	all(t, direct, documents("other:", 100)...) // plain again
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: server.Addr, Settings: "pack: {background: true}", Rules: `- {name: all, key: "*", setting: zstd-3}`,
	})
	testenv.Eventually(t, "the gateway packs", func() bool { return sealedFields(t, direct, "other:*") > 0 })
	if n := sealedFields(t, direct, "doc:*"); n > 0 {
		t.Errorf("%d fields are sealed under the index", n)
	}
	same(t, want, answers(t, client(t, gateway.Addr), "idx", 100))
}

// If the user may not list the indexes, no hash is packed.
func TestPackWithoutTheRightToLook(t *testing.T) {
	server := servers["stack"](t)
	direct := client(t, server.Addr)
	all(t, direct, documents("doc:", 20)...)
	all(t, direct, call{"ACL", "SETUSER", "packer", "on", ">pw", "~*", "+@all", "-ft._list"})
	text := cli(t, "pack", "redis://packer:pw@"+server.Addr)
	if n := sealedFields(t, direct, "doc:*"); n > 0 || !strings.Contains(text, "+ft._list") {
		t.Errorf("%d fields are sealed:\n%s", n, text)
	}
}
