package endpoint

import "testing"

func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "unix:/run/s": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "db:1": false,
	} {
		if OnLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}
