package upgrade

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
)

// socketsVariable holds, as JSON, the sockets that a process inherits from the one that it replaces.
// systemd's own variables would not do: they name the process that they are for, whose number is unknown
// before it exists.
const socketsVariable = "CINCH_HANDOVER"

// firstDescriptor is the first descriptor that a successor inherits besides standard input, output and error:
// the pipe for its report that it serves, followed by the sockets.
const firstDescriptor = 3

// Inherit returns the sockets that this process was started with, by its predecessor or by systemd. It must
// be called once, and removes the variables that describe the sockets.
func Inherit() (*Sockets, error) {
	text := os.Getenv(socketsVariable)
	_ = os.Unsetenv(socketsVariable)
	if text != "" {
		return fromPredecessor(text)
	}
	return fromSystemd()
}

func fromPredecessor(text string) (*Sockets, error) {
	var given []*socket
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("%s: %w", socketsVariable, err)
	}
	syscall.CloseOnExec(firstDescriptor)
	pipe := os.NewFile(firstDescriptor, "ready")
	s := &Sockets{ready: func() {
		_, _ = pipe.WriteString(served)
		_ = pipe.Close()
	}}
	for i, k := range given {
		if err := k.adopt(os.NewFile(uintptr(firstDescriptor+1+i), k.Name)); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", socketsVariable, k.Name, err)
		}
		s.given = append(s.given, k)
	}
	return s, nil
}

func fromSystemd() (*Sockets, error) {
	s := &Sockets{}
	for _, f := range activation.Files(true) {
		k := &socket{Name: f.Name(), Kept: true}
		if err := k.adopt(f); err != nil {
			return nil, fmt.Errorf("socket %s of systemd: %w", k.Name, err)
		}
		s.given = append(s.given, k)
	}
	return s, nil
}

// adopt makes a listener of a descriptor, and closes the descriptor. The file of a unix socket does not
// belong to this process before it serves: a process that fails earlier leaves it to its predecessor.
func (k *socket) adopt(f *os.File) (err error) {
	defer f.Close()
	k.listener, err = net.FileListener(f)
	return err
}

// Serving tells the predecessor, if there is one, that this process serves.
func (s *Sockets) Serving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range append(s.open(), s.given...) {
		k.keepFile(false)
	}
	if s.ready != nil {
		s.ready()
		s.ready = nil
	}
}

// Given returns the number of inherited sockets that have not been requested.
func (s *Sockets) Given() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.given)
}
