package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The example writes 3,000 orders without a rate limit: all are read back correctly, and the store holds
// fewer bytes than were written.
func TestOrders(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), []string{"--orders", "3000", "--rate", "0", "--cinch", testenv.Cinch(t)}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\n3000 orders were written and read back, all unchanged") {
		t.Errorf("no verdict:\n%s", &out)
	}
	lines := regexp.MustCompile(`(?m)^ +\d+ .*? (\d+) % `).FindAllStringSubmatch(out.String(), -1)
	if len(lines) == 0 {
		t.Fatalf("no line of figures:\n%s", &out)
	}
	if saved, err := strconv.Atoi(lines[len(lines)-1][1]); err != nil || saved < 30 {
		t.Errorf("%d %% saved, %v:\n%s", saved, err, &out)
	}
}
