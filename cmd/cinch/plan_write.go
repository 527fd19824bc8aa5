package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// namesAreFree checks before the work that the output files don't exist.
func (o *planOptions) namesAreFree() error {
	return cmp.Or(nameIsFree("--write", o.write), nameIsFree("--html", o.html))
}

func nameIsFree(flag, name string) error {
	if name == "" {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return terminal.WithHint(fmt.Errorf("%s: %w", name, fs.ErrExist), "choose another name for %s", flag)
	}
	return nil
}

func (o *planOptions) writeFiles(made *plan.CreatedFiles, r *plan.Report) error {
	if err := o.writeConfig(made, r); err != nil {
		return err
	}
	return o.writePage(made, r.HTML)
}

// writeConfig writes the configuration and its dictionaries. The configuration comes first: its name decides
// which of two concurrent plans continues.
func (o *planOptions) writeConfig(made *plan.CreatedFiles, r *plan.Report) error {
	if o.write == "" {
		return nil
	}
	upstream, err := o.planUpstream()
	if err != nil {
		return err
	}
	base := strings.TrimSuffix(filepath.Base(o.write), filepath.Ext(o.write))
	text, files, err := r.Config(plan.WriteOptions{Listen: cmp.Or(o.listen, defaultListen(r.Protocol)), Upstream: upstream, Base: base, Auto: o.dictionaries == "auto", Zstd: o.zstd})
	if err != nil {
		return err
	}
	if err := made.Create(o.write, text); err != nil {
		return terminal.WithHint(err, "choose another name for --write")
	}
	for _, f := range files {
		if err := made.Dictionary(filepath.Join(filepath.Dir(o.write), f.FileName(base)), f); err != nil {
			return terminal.WithHint(err, "choose another name for --write")
		}
	}
	return nil
}

// planUpstream returns the upstream of a gateway for the source.
func (o *planOptions) planUpstream() (string, error) {
	from := o.passwords.Given(o.from[0])
	switch {
	case o.upstream != "":
		return o.upstream, nil
	case isAdminURL(o.from[0]):
		return "", terminal.WithHint(errors.New("--write needs the gateway's upstream"), "give it with --upstream grpc://host:port, http://host or mongodb://host")
	case open.Kind(from) != "":
		return open.GatewayUpstream(from)
	}
	return "redis://127.0.0.1:6379", nil
}

// writePage writes the report as a web page, if requested.
func (o *planOptions) writePage(made *plan.CreatedFiles, write func(io.Writer) error) error {
	if o.html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := made.Create(o.html, b.Bytes()); err != nil {
		return terminal.WithHint(err, "choose another name for --html, on a disk with room")
	}
	return nil
}

// defaultListen returns the default address of a protocol's gateway.
func defaultListen(protocol string) string {
	switch protocol {
	case config.Tarantool:
		return "127.0.0.1:3302"
	case config.Mongo:
		return "127.0.0.1:27018"
	case config.GRPC:
		return "127.0.0.1:50052"
	case config.HTTP:
		return "127.0.0.1:8080"
	}
	return "127.0.0.1:6380"
}
