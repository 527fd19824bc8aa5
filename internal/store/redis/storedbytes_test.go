package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// StoredBytes returns approximately the size of the values.
func TestStoredBytes(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	before, servers, err := d.StoredBytes(t.Context())
	if err != nil || servers != 1 {
		t.Fatalf("%d, %v", servers, err)
	}
	const values, each = 2000, 1000
	for i := range values {
		if err := client.Set(t.Context(), fmt.Sprint(i), strings.Repeat("x", each), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if after, _, err := d.StoredBytes(t.Context()); err != nil || after-before < values*each || after-before > 2*values*each {
		t.Errorf("%d bytes of values are %d in %d, %v", values*each, after-before, after, err)
	}
}
