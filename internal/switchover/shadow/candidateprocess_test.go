package shadow

import (
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// candidateAddress tells a process of this test where to listen.
const candidateAddress = "CINCH_TEST_CANDIDATE"

// The address of a candidate is chosen at each start: since the last one, another process may have taken its
// port.
func TestCandidateListensWhereNobodyDoes(t *testing.T) {
	if address := os.Getenv(candidateAddress); address != "" {
		listenUntilTerm(t, address)
		return
	}
	p := Process{
		Program: os.Args[0], Args: []string{"-test.run=^" + t.Name() + "$"},
		Listen: func(address string) string { return candidateAddress + "=" + address },
	}
	first, stop, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	other, err := net.Listen("tcp", first.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	second, stop, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if second.Address == first.Address {
		t.Errorf("the second process reports the address %s of the first", second)
	}
}

func listenUntilTerm(t *testing.T, address string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	<-term
	_ = l.Close()
}
