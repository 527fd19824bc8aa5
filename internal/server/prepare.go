package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
)

// Checked holds the result of Check for a valid configuration.
type Checked struct {
	Config   *config.Config
	Warnings []config.Problem
}

// Check builds the process that New would build, without listening or connecting anywhere. It returns an
// error if and only if New would fail for a reason other than a port, a socket or an address that can't be
// listened on.
func Check(o Options) (Checked, error) {
	p, err := prepare(o)
	if err != nil {
		return Checked{}, err
	}
	defer p.close()
	return Checked{p.started, append(p.warnings, openListenerWarnings(p.started, p.gateways)...)}, nil
}

// prepare builds everything of a process that needs no network: it reads the configuration and all files that
// it names, and makes the gateways. Errors are a *ConfigError, or come from o.Load.
func prepare(o Options) (_ *Process, err error) {
	cfg, err := o.Load()
	if err != nil {
		return nil, err
	}
	if o.Sockets == nil {
		o.Sockets = &upgrade.Sockets{}
	}
	p := &Process{
		options: &o, started: cfg, level: new(slog.LevelVar), ledger: &admin.Ledger{},
		reloads: make(chan struct{}, 1), replacements: make(chan struct{}, 1),
		warnings: cfg.Warnings(),
	}
	p.log = newLogger(cfg.Log, p.level, o.Log)
	if p.shared, err = newShared(&o, cfg, p.log); err != nil {
		return nil, asConfigError(err)
	}
	defer func() {
		if err != nil {
			p.close()
			err = asConfigError(err)
		}
	}()
	l, err := loadFiles(cfg, o.Force)
	if err != nil {
		return nil, err
	}
	p.current.Store(l)
	p.reloaded.begin()
	for i := range cfg.Gateways {
		r, err := p.shared.newGateway(l, &cfg.Gateways[i])
		if err != nil {
			return nil, err
		}
		p.gateways = append(p.gateways, r)
		if err := p.addPacker(r); err != nil {
			return nil, err
		}
	}
	if cfg.Admin.Listen != config.Off {
		if err := p.prepareAdmin(); err != nil {
			return nil, err
		}
	}
	return p, checkSockets(cfg)
}

// checkSockets reports unix sockets whose directory is missing, or whose path is a file of another kind.
func checkSockets(cfg *config.Config) error {
	for _, l := range cfg.Listeners() {
		path := l.Path
		socket, ok := strings.CutPrefix(l.Address, "unix:")
		if !ok {
			continue
		}
		socket = strings.TrimPrefix(socket, "//")
		if info, err := os.Stat(filepath.Dir(socket)); err != nil {
			return cfg.Invalid(path, err)
		} else if !info.IsDir() {
			return cfg.Invalid(path, fmt.Errorf("%s is not a directory", filepath.Dir(socket)))
		}
		if info, err := os.Lstat(socket); err == nil && info.Mode().Type() != fs.ModeSocket {
			return cfg.Invalid(path, fmt.Errorf("%s exists and is not a socket", socket))
		}
	}
	return nil
}

// warn logs likely mistakes in a configuration.
func (p *Process) warn(warnings []config.Problem) {
	for _, w := range warnings {
		p.log.Warn("the configuration is valid, but "+w.Text, "at", w.Place(), "hint", w.Hint)
	}
}
