package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// stage holds the processes between clients and production during one run.
type stage struct {
	*bench
	side    *side
	targets []*rig.Process
	doors   []string // addresses at which the mirror reaches the targets
	disks   []string
	admin   string
	stop    []func() error
}

// memoryBytes is the mirror's --memory, and mostBytes the limit that docs/SHADOW.md gives for the memory of
// its process.
const (
	memoryBytes = 128 << 20
	mostBytes   = memoryBytes*12/10 + 48<<20 + clients*48<<10
)

// diskBytes is the size of a disk that is to fill up; a new server's files fit.
const diskBytes = 160 << 20

func (s *stage) ends(p *rig.Process) {
	s.stop = append(s.stop, func() error { p.Stop(); return nil })
}

// proxy starts the simplest proxy in front of a server.
func (s *stage) proxy(server *rig.Process, flags ...string) (*rig.Process, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	p, err := rig.StartListener("forward", addr, s.work, append(append([]string{s.forward}, flags...), addr, server.Addr)...)
	if err != nil {
		return nil, err
	}
	s.ends(p)
	return p, nil
}

// mirror starts targets and a mirror, and then causes the trouble.
func (s *stage) mirror(production *rig.Process, trouble string) (*rig.Process, error) {
	for range 2 {
		if err := s.target(trouble); err != nil {
			return nil, err
		}
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	if s.admin, err = rig.FreeAddr(); err != nil {
		return nil, err
	}
	args := append([]string{
		s.cinch, "shadow", "--" + s.side.name, addr + "=" + s.side.url(production.Addr), "--control", s.side.url(s.doors[0]), "--test", s.side.url(s.doors[1]),
		"--memory", fmt.Sprint(memoryBytes), "--admin", s.admin, "--batch", "10s", "--self-test=false",
	}, s.side.flags...)
	p, err := rig.StartListener("shadow", addr, s.work, args...)
	if err != nil {
		return nil, err
	}
	s.ends(p)
	for range 600 {
		if strings.Contains(p.Output(), "clients may connect") {
			return p, s.trouble(trouble)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("shadow did not start: %s", p.Output())
}

// target starts a server, on a disk of its own if the disk is to be full.
func (s *stage) target(trouble string) error {
	work, full := s.work, trouble == "full"
	if full {
		work = filepath.Join(s.work, fmt.Sprintf("disk-%d", len(s.disks)))
		if err := rig.MountMemory(work, diskBytes); err != nil {
			return err
		}
		s.disks = append(s.disks, work)
		s.stop = append(s.stop, func() error { return errors.Join(rig.Unmount(work), os.Remove(work)) })
	}
	p, err := s.side.start(work, full)
	if err != nil {
		return err
	}
	s.targets = append(s.targets, p)
	s.ends(p)
	door := p
	if trouble == "slow" {
		if door, err = s.proxy(p, "-late", targetLate.String()); err != nil {
			return err
		}
	}
	s.doors = append(s.doors, door.Addr)
	return errors.Join(p.Nice(s.nice), door.Nice(s.nice))
}

// trouble puts the targets into the state that the way measures.
func (s *stage) trouble(what string) error {
	for _, dir := range s.disks {
		if err := rig.Fill(dir); err != nil {
			return err
		}
	}
	for _, t := range s.targets {
		switch what {
		case "frozen":
			thaw, err := t.Freeze()
			if err != nil {
				return err
			}
			s.stop = append(s.stop, func() error { thaw(); return nil })
		case "killed":
			kill := time.AfterFunc(length/3, t.Kill)
			s.stop = append(s.stop, func() error { kill.Stop(); return nil })
		case "stutter":
			s.stutter(t)
		}
	}
	return nil
}

// targetLate is the delay of each response of a slow target.
const targetLate = 20 * time.Millisecond

// stutter freezes a server for 20 of every 25 ms.
func (s *stage) stutter(t *rig.Process) {
	over, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-over:
				ended <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
			thaw, err := t.Freeze()
			if err != nil {
				<-over
				ended <- err
				return
			}
			time.Sleep(20 * time.Millisecond)
			thaw()
		}
	}()
	s.stop = append(s.stop, func() error { close(over); return <-ended })
}

// judge checks after a run that the mirror behaved as it should, and that the trouble happened.
func (s *stage) judge(w *way, m *rig.Process) error {
	metrics, err := s.metrics()
	if err != nil {
		return err
	}
	if strings.Contains(metrics, "cinch_shadow_mirroring 1") {
		w.on++
	} else if w.targets == "answer" || w.targets == "frozen" || w.targets == "slow" || w.targets == "stutter" {
		return fmt.Errorf("the mirror is off: %s", m.Output())
	}
	peak, err := m.Peak()
	if w.peak = max(w.peak, peak); err == nil && peak > mostBytes {
		err = fmt.Errorf("the mirror held %d bytes, more than %d", peak, mostBytes)
	}
	for _, t := range s.targets {
		if w.targets == "full" && !strings.Contains(t.Output(), "No space left on device") {
			err = errors.Join(err, fmt.Errorf("the disk of %s was not full: %s", t.Addr, t.Output()))
		}
	}
	return err
}

func (s *stage) metrics() (string, error) { return fetch("http://" + s.admin + "/metrics") }

// end stops everything in reverse order of its start.
func (s *stage) end() (err error) {
	for _, stop := range slices.Backward(s.stop) {
		err = errors.Join(err, stop())
	}
	return err
}
