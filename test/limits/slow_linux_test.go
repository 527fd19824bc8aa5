package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// giveUp is the timeout of a test that hangs.
const giveUp = 2 * time.Minute

// settle waits until the process has stopped growing, at most eight seconds.
func settle(t testing.TB, pid int) {
	t.Helper()
	var last int64
	for range 20 {
		time.Sleep(400 * time.Millisecond)
		now := memoryOf(t, pid).now
		if now <= last+mb {
			return
		}
		last = now
	}
}

func bigValue(t *testing.T, g *testenv.GatewayServer) {
	t.Helper()
	if err := mustDial(t, g.Addr).set("big", document(8*mb, 7)); err != nil {
		t.Fatal(err)
	}
}

// readersOfNothing request a large compressed value and never read the reply.
func readersOfNothing(t *testing.T, g *testenv.GatewayServer, n int) {
	t.Helper()
	for range n {
		if err := mustDial(t, g.Addr).send([]byte("big"), "GET"); err != nil {
			t.Fatal(err)
		}
	}
}

// sendersOfNothing declare a value's length and send only its first bytes.
func sendersOfNothing(t *testing.T, g *testenv.GatewayServer, n, declared int) {
	t.Helper()
	for i := range n {
		c := mustDial(t, g.Addr)
		if _, err := fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$6\r\nslow:%d\r\n$%d\r\nabc", i%10, declared); err != nil {
			t.Fatal(err)
		}
	}
}

func TestManyReadersOfNothing(t *testing.T) {
	t.Parallel()
	_, g := start(t)
	bigValue(t, g)
	readersOfNothing(t, g, codectest.Amount(56, 56, 256)) // their replies together exceed limitTotal
	settle(t, g.Pid())
	if err := mustDial(t, g.Addr).roundTrip(document(10<<10, 1)); err != nil {
		t.Errorf("a client with small values: %v", err)
	}
	mustStayUnder(t, g.Pid(), limitTotal)
}

func TestManySendersOfNothing(t *testing.T) {
	t.Parallel()
	for _, declared := range []int{1 * mb, 30 * mb, 512 * mb} {
		t.Run(fmt.Sprintf("%d MB", declared/mb), func(t *testing.T) {
			if declared != 30*mb {
				testenv.Full(t)
			}
			t.Parallel()
			_, g := start(t)
			sendersOfNothing(t, g, 256, declared)
			settle(t, g.Pid())
			if err := mustDial(t, g.Addr).roundTrip(document(10<<10, 1)); err != nil {
				t.Errorf("a client with small values: %v", err)
			}
			mustStayUnder(t, g.Pid(), limitTotal)
		})
	}
}

// Clients that hold the whole budget without progress lose it, so that others continue.
func TestLargeValuesGoOnBehindStalledClients(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]func(*testing.T, *testenv.GatewayServer){
		"readers": func(t *testing.T, g *testenv.GatewayServer) { readersOfNothing(t, g, 20) },
		"senders": func(t *testing.T, g *testenv.GatewayServer) { sendersOfNothing(t, g, 3, 30*mb) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "readers" {
				testenv.Full(t)
			}
			t.Parallel()
			_, g := start(t)
			bigValue(t, g)
			stall(t, g)
			settle(t, g.Pid())
			c := mustDial(t, g.Addr)
			_ = c.SetDeadline(time.Now().Add(giveUp))
			if err := c.roundTrip(document(mb, 3)); err != nil {
				t.Error(err)
			}
			mustStayUnder(t, g.Pid(), limitTotal)
		})
	}
}
