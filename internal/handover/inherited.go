package handover

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
)

// variable names the sockets that a process gets from the one that it replaces, as JSON. systemd's own variables would not do: they
// name the process that they are for, whose number is not known before it is there.
const variable = "CINCH_HANDOVER"

// firstDescriptor is that of what a process is given beside standard input, output and errors: the pipe on which to
// say that it serves, and then the sockets.
const firstDescriptor = 3

// Inherit returns the sockets that this process was started with, by its predecessor or by systemd. It is called once,
// and removes the variables that say so.
func Inherit() (*Sockets, error) {
	text := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	if text != "" {
		return fromPredecessor(text)
	}
	return fromSystemd()
}

func fromPredecessor(text string) (*Sockets, error) {
	var given []*socket
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	syscall.CloseOnExec(firstDescriptor)
	pipe := os.NewFile(firstDescriptor, "ready")
	s := &Sockets{ready: func() {
		_, _ = pipe.WriteString(served)
		_ = pipe.Close()
	}}
	for i, k := range given {
		if err := k.adopt(os.NewFile(uintptr(firstDescriptor+1+i), k.Name)); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", variable, k.Name, err)
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

// adopt makes a listener of a descriptor, and closes that. The file of a unix socket isn't ours before we serve: a process that fails before
// leaves it to the one that goes on.
func (k *socket) adopt(f *os.File) (err error) {
	defer f.Close()
	k.listener, err = net.FileListener(f)
	return err
}

// Serving tells the process before us, if there is one, that we serve.
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

// Given is how many sockets nobody has asked for yet.
func (s *Sockets) Given() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.given)
}
