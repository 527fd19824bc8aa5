package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/internal/switchover/rollout"
	"github.com/cinch-layer/cinch/test/rig"
)

// cellText is a cell's configuration file, as in docs/ROLLOUT.md.
const cellText = `cell: example
state: %s
gateway: {admin: %q, token_file: %s}
gates: {hold: 10s, catch_up: 2m, sample: 4MiB}
nodes:
`

const nodeText = `  - {name: %[1]s, url: %[2]q, directory: %[3]s, run: %[7]s, root: [], bin: %[8]q, cinch: %[9]s,
     replacement: {name: %[4]s, url: %[5]q, directory: %[6]s, run: %[7]s, root: [], bin: %[8]q, options: {port: %[10]q}}}
`

// describe writes the cell's configuration file.
func (c *cell) describe() (err error) {
	if c.listen, err = rig.FreeAddr(); err != nil {
		return err
	}
	if c.admin, err = rig.FreeAddr(); err != nil {
		return err
	}
	c.token, c.file = filepath.Join(c.work, "token"), filepath.Join(c.work, "cell.yaml")
	run, err := json.Marshal(c.as)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, cellText, filepath.Join(c.work, "state.json"), c.admin, c.token)
	for i, n := range c.old {
		made := c.made[i]
		fmt.Fprintf(&text, nodeText, n.name, n.url(), n.data, made.name, made.url(), made.data, run, rig.PostgresBin(), c.cinch, made.port)
	}
	return errors.Join(os.WriteFile(c.token, []byte("only for this example\n"), 0o600), os.WriteFile(c.file, text.Bytes(), 0o600))
}

// serve starts the gateway, and returns when clients can connect through it.
func (c *cell) serve(ctx context.Context) (err error) {
	upstream := c.listen + "=" + c.old[0].url() + "&state_file=" + filepath.Join(c.work, "gateway.json")
	args := []string{"serve", "--postgres", upstream, "--admin", c.admin, "--admin-token-file", c.token}
	c.say("\n$ cinch %s", strings.Join(args, " "))
	if c.gateway, err = c.run("cinch serve", nil, c.cinch, args...); err != nil {
		return err
	}
	for {
		if ask(ctx, urlAt(c.listen), func(db *pgx.Conn) error { return db.Ping(ctx) }) == nil {
			return nil
		}
		select {
		case <-c.gateway.ended:
			return fmt.Errorf("cinch serve: %w\n%s", c.gateway.err, c.gateway.out.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// move starts the clients, moves the cell, and lets the clients continue.
func (c *cell) move(ctx context.Context) (*outcome, error) {
	if err := c.serve(ctx); err != nil {
		return nil, err
	}
	out := &outcome{page: c.o.page, Began: time.Now(), Mount: c.o.options}
	if err := c.pgbench(); err != nil {
		return nil, err
	}
	stop := c.bank(ctx)
	err := c.rollOut(ctx)
	if err == nil {
		err = c.goOn(ctx, out)
	}
	out.Tellers = stop()
	if err != nil {
		return nil, errors.Join(err, c.trouble())
	}
	if err := c.endLoad(out); err != nil {
		return nil, err
	}
	gateway := &control.Client{Admin: c.admin, TokenFile: c.token}
	if out.Gateway, err = gateway.State(ctx); err != nil {
		return nil, err
	}
	return out, c.readLog(out)
}

// trouble returns pgbench's output as an error, if it has ended.
func (c *cell) trouble() error {
	select {
	case <-c.load.ended:
		return fmt.Errorf("pgbench: %w\n%s", c.load.err, c.load.out.String())
	default:
		return nil
	}
}

// rollOut runs cinch rollout as a user would.
func (c *cell) rollOut(ctx context.Context) (err error) {
	c.say("\n$ cinch rollout run %s --yes", c.file)
	if c.rollingOut, err = c.run("cinch rollout", c.progress, c.cinch, "rollout", "run", c.file, "--yes"); err != nil {
		return err
	}
	select {
	case <-c.rollingOut.ended:
	case <-c.load.ended: // a client failed
		c.rollingOut.stop()
		return errors.New("pgbench ended too early")
	case <-ctx.Done():
		c.rollingOut.stop()
		return ctx.Err()
	}
	if c.rollingOut.err != nil {
		return fmt.Errorf("cinch rollout: %w", c.rollingOut.err)
	}
	return nil
}

// mostLooks limits the measurements of the new nodes after the move. They are at least a second apart.
const mostLooks = 8

// goOn lets clients work on the moved cell, and measures its size.
func (c *cell) goOn(ctx context.Context, out *outcome) error {
	c.say("\nThe cell has moved. Clients continue for %v.", c.o.after)
	began := time.Now()
	looks := min(time.Duration(mostLooks), c.o.after/time.Second)
	for i := range looks + 1 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(began.Add(c.o.after * i / max(looks, 1)))):
		}
		if err := c.look(ctx, out, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// look runs cinch rollout status after a checkpoint on all new nodes.
func (c *cell) look(ctx context.Context, out *outcome, after time.Duration) error {
	var database int64
	for _, n := range c.made {
		err := ask(ctx, n.url(), func(db *pgx.Conn) error {
			if _, err := db.Exec(ctx, "CHECKPOINT"); err != nil {
				return err
			}
			return db.QueryRow(ctx, "SELECT sum(pg_database_size(oid))::bigint FROM pg_database").Scan(&database)
		})
		if err != nil {
			return err
		}
	}
	text, err := exec.CommandContext(ctx, c.cinch, "rollout", "status", c.file, "--json").Output()
	if err != nil {
		return fmt.Errorf("cinch rollout status: %w", err)
	}
	out.State = new(rollout.State)
	if err := json.Unmarshal(text, out.State); err != nil {
		return err
	}
	l := look{After: after, Database: database}
	for i, n := range c.old {
		l.Disk[i] = out.State.Nodes[n.name].Now.Data
	}
	out.Looks = append(out.Looks, l)
	return nil
}

func urlAt(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" }
