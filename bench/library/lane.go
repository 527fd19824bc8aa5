package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/client"
)

// lane is a running way, with a server of its own.
type lane struct {
	way
	values          [][]byte
	server, gateway *rig.Process // gateway: nil if there is none
	direct          *redis.Client
	client          *client.Process
	turns           []turn
}

// startLanes starts ways with a corpus's dictionary. It returns when each has written and read all values. The caller
// stops the returned lanes, also after an error.
func (o *options) startLanes(d *data, of []way, values [][]byte) (lanes []*lane, err error) {
	file := filepath.Join(o.work, fmt.Sprintf("%s-%d.values", d.Name, len(values)))
	if err := client.WriteValues(file, values); err != nil {
		return nil, err
	}
	for _, w := range of {
		l := &lane{way: w, values: values}
		lanes = append(lanes, l)
		if err := o.startServers(l, d); err != nil {
			return lanes, fmt.Errorf("%s: %w", w.name, err)
		}
		if err := o.startClient(l, file); err != nil {
			return lanes, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return lanes, nil
}

func (o *options) startServers(l *lane, d *data) (err error) {
	if l.sealed {
		l.server, err = o.trainedServer(d)
	} else {
		l.server, err = rig.Redis(o.work)
	}
	if err != nil {
		return err
	}
	l.direct = l.server.Client()
	if !l.way.gateway {
		return nil
	}
	if l.gateway, err = o.gateway(l.server); err != nil {
		return err
	}
	probe := l.gateway.Client()
	defer probe.Close()
	return rig.AwaitDictionary(probe, l.server)
}

func (o *options) startClient(l *lane, file string) (err error) {
	command, target := []string{o.self, clientRole}, l.server
	if l.python {
		if command, err = client.Python(o.python, o.work); err != nil {
			return err
		}
	}
	if l.gateway != nil {
		target = l.gateway
	}
	l.client, err = client.Start(append(command, target.Port(), l.way.client, file)...)
	return err
}

func stopAll(lanes []*lane) {
	for _, l := range lanes {
		l.stopClient()
		if l.direct != nil {
			_ = l.direct.Close()
		}
		if l.server != nil {
			l.server.Stop()
		}
	}
}

// stopClient ends client and gateway, so that only the benchmark is connected to the server.
func (l *lane) stopClient() {
	l.client.Stop()
	if l.gateway != nil {
		l.gateway.Stop()
		l.gateway = nil
	}
}

// cost holds the CPU time of an operation by process, in microseconds.
type cost struct{ client, gateway, server float64 }

func (c cost) sum() float64 { return c.client + c.gateway + c.server }

type turn struct{ set, get cost }

func (l *lane) turn(n int) error {
	set, err := l.cost("set", n)
	if err != nil {
		return err
	}
	get, err := l.cost("get", n)
	l.turns = append(l.turns, turn{set, get})
	return err
}

func (l *lane) cost(step string, n int) (c cost, err error) {
	before, err := l.used()
	if err != nil {
		return c, err
	}
	if err := l.client.Ask(&struct{}{}, step, n); err != nil {
		return c, err
	}
	after, err := l.used()
	each := func(i int) float64 { return float64(after[i]-before[i]) / float64(time.Microsecond) / float64(n) }
	return cost{each(0), each(1), each(2)}, err
}

func (l *lane) used() (t [3]time.Duration, err error) {
	if t[0], err = l.client.CPU(); err != nil {
		return t, err
	}
	if l.gateway != nil {
		if t[1], err = l.gateway.CPU(); err != nil {
			return t, err
		}
	}
	t[2], err = l.server.CPU()
	return t, err
}

// wire returns the bytes that the server received for a SET and sent for a GET, on average over one of each
// value.
func (l *lane) wire() (set, get float64, err error) {
	if set, err = l.moved("set", "total_net_input_bytes"); err != nil {
		return 0, 0, err
	}
	get, err = l.moved("get", "total_net_output_bytes")
	return set, get, err
}

func (l *lane) moved(step, counter string) (float64, error) {
	var at [3]int64
	for i := range at {
		if i == 2 {
			if err := l.client.Ask(&struct{}{}, step, len(l.values)); err != nil {
				return 0, err
			}
		}
		var err error
		if at[i], err = rig.InfoNumber(l.direct, "stats", counter); err != nil {
			return 0, err
		}
	}
	asking := at[1] - at[0] // the INFO calls alone
	return float64(at[2]-at[1]-asking) / float64(len(l.values)), nil
}
