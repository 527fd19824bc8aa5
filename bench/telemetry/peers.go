package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peersModule is the directory of a module outside of the workspace, which requires the peers' libraries.
const peersModule = "bench/telemetry/peers"

// buildPeers builds the program that measures the peers.
func buildPeers(ctx context.Context, work string) (program string, err error) {
	program = filepath.Join(work, "peers")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", peersModule, "-o", program, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// peersOf adds rows for the peers' libraries on a payload. Their times are relative to S2's.
func (r *report) peersOf(ctx context.Context, p payload, s2 times) error {
	if r.program == "" || p.kind == "" {
		return nil
	}
	var in bytes.Buffer
	fmt.Fprintf(&in, "%s %d\n", p.kind, r.rounds)
	for _, m := range p.messages {
		in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(m))))
		in.Write(m)
	}
	cmd := exec.CommandContext(ctx, r.program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	there, back := s2.median()
	for line := range strings.Lines(string(out)) {
		if err := r.peerRow(p, strings.Split(strings.TrimSpace(line), "\t"), there+back); err != nil {
			return err
		}
	}
	return nil
}

// peerRow adds a row from a line of the program: name, bytes, nanoseconds of encoding and decoding, and the
// number of units that came back. If any are missing, the row has no sizes or times.
func (r *report) peerRow(p payload, f []string, s2 time.Duration) error {
	if len(f) == 3 && f[1] == "error" {
		r.table.Row(p.name, f[0]+", its library", "fails: "+f[2], "", "", "", "", "", "")
		return nil
	}
	var n [4]int
	if len(f) != 1+len(n) {
		return fmt.Errorf("unexpected output of peers: %q", f)
	}
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(f[1+i]); err != nil {
			return err
		}
	}
	size, there, back, came := n[0], n[1], n[2], n[3]
	name := f[0] + ", its library"
	if came != p.units {
		r.table.Row(p.name, name, fmt.Sprintf("only %d of %d %ss were decompressed", came, p.units, p.unit), "", "", "", "", "", "")
		return nil
	}
	raw := float64(p.bytes())
	perMB := func(ns int) string { return fmt.Sprintf("%.2f", float64(ns)/raw) }
	r.table.Row(p.name, name, strconv.Itoa(size), fmt.Sprintf("%.2f", float64(size)/float64(p.units)), "", "", perMB(there), perMB(back), fmt.Sprintf("%.1f", float64(there+back)/float64(s2.Nanoseconds())))
	return nil
}
