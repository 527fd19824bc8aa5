package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// storeOptions selects the store of pack, unpack and verify, and the rules.
type storeOptions struct {
	configFile string
	gateway    string
	rules      []string
	dbs        []int
	dictFiles  []string
	zstd       string
	sealing    bool // for what the rules cover, not for everything stored: pack
	readOnly   bool // nothing is replaced, so a replica is sufficient
	everywhere bool // all shards, not only one

	at open.Location
}

func (o *storeOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration `FILE` with the gateway whose upstream is the store; variable "+configVariable)
	f.StringVar(&o.gateway, "gateway", "", "`NAME` of the gateway in the configuration (required if it has several)")
	f.IntSliceVar(&o.dbs, "db", nil, "`NUMBER` of a database (may be repeated; default: all)")
	f.StringArrayVar(&o.dictFiles, "dict", nil, "dictionary `FILE`, in addition to those in the store and the configuration (may be repeated)")
	f.StringVar(&o.zstd, "zstd", "", zstdFlag)
}

// take reads the URL and the environment.
func (o *storeOptions) take(args []string) error {
	url := ""
	if len(args) == 1 {
		url = args[0]
	}
	if o.configFile == "" && url == "" {
		o.configFile = os.Getenv(configVariable)
	}
	if url == "" && o.configFile == "" {
		return wrongUsage(terminal.WithHint(errors.New("no store given"), "give its URL, redis://host:6379, or --config FILE"))
	}
	var err error
	if o.at, err = open.ParseLocation(url, o.dbs); err != nil {
		return err
	}
	switch {
	case o.gateway != "" && o.configFile == "":
		err = terminal.WithHint(errors.New("--gateway needs a configuration file"), "give the file with --config")
	case len(o.rules) > 0 && o.configFile != "":
		err = terminal.WithHint(errors.New("--rule can't be used with a configuration file"), "leave out --rule or --config")
	}
	return wrongUsage(err)
}

// openedStore is an open store with its configuration.
type openedStore struct {
	cfg     *config.Config
	gateway config.Gateway
	policy  *policy.Policy
	engine  *codec.Engine

	options open.Options // to open it again
	local   dict.Set     // dictionaries from files, and those found
	store   store.Store
}

// open reads the configuration and connects.
func (o *storeOptions) open(ctx context.Context) (*openedStore, error) {
	w := &openedStore{}
	if err := o.configure(w); err != nil {
		return nil, err
	}
	if err := w.loadDictionaries(o.dictFiles); err != nil {
		return nil, err
	}
	up, err := w.cfg.UpstreamOf(&w.gateway, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	w.options = open.Options{
		Kind: w.gateway.Protocol, Upstream: &up, Shards: w.gateway.Shards, Databases: o.at.Databases,
		ReadOnly: o.readOnly, Everywhere: o.everywhere, Local: &w.local,
	}
	if o.sealing {
		w.options.Rules = w.policy
	}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// connect opens the store at all of its current nodes.
func (w *openedStore) connect(ctx context.Context) error {
	s, err := open.Open(ctx, w.gateway.Upstream, w.options)
	if err == nil {
		w.store = s
	}
	return err
}

// moved reports whether the store's values have moved to other nodes, and connects to those.
func (w *openedStore) moved(ctx context.Context) (bool, error) {
	if moved, err := w.store.Moved(ctx); err != nil || !moved {
		return false, err
	}
	w.store.Close()
	return true, w.connect(ctx)
}

// configure finds or makes the gateway configuration for the store.
func (o *storeOptions) configure(w *openedStore) error {
	var more []config.Gateway
	if o.configFile == "" {
		rules, err := serveOptions{rules: o.rules}.ruleList()
		if err != nil {
			return withCode(exitConfig, err)
		}
		more = []config.Gateway{o.at.Gateway(rules)}
	}
	var err error
	if w.cfg, err = loadConfig(o.configFile, more, chosenZstd(o.zstd)); err != nil {
		return err
	}
	if w.gateway, err = o.choose(w.cfg.Gateways); err != nil {
		return withCode(exitConfig, err)
	}
	if o.at.URL != "" {
		w.gateway.Upstream = o.at.URL
	}
	if o.at.Shards != nil {
		w.gateway.Shards = o.at.Shards
	}
	w.engine, err = engineWith(w.cfg.Zstd)
	return err
}

func (o *storeOptions) choose(gateways []config.Gateway) (config.Gateway, error) {
	var names []string
	for _, g := range gateways {
		if g.Name == o.gateway || o.gateway == "" && len(gateways) == 1 {
			return g, nil
		}
		names = append(names, g.Name)
	}
	if o.gateway == "" {
		return config.Gateway{}, terminal.WithHint(fmt.Errorf("%s has %d gateways", o.configFile, len(gateways)), "choose one with --gateway: %s", strings.Join(names, ", "))
	}
	err := fmt.Errorf("%s has no gateway %q", o.configFile, o.gateway)
	if near := terminal.Nearest(o.gateway, names); near != "" {
		return config.Gateway{}, terminal.WithHint(err, "did you mean %s?", near)
	}
	return config.Gateway{}, terminal.WithHint(err, "it has %s", strings.Join(names, ", "))
}

// loadDictionaries reads all files and builds the policy, which needs their numbers.
func (w *openedStore) loadDictionaries(more []string) error {
	named, err := w.cfg.LoadDictionaries()
	if err != nil {
		return withCode(exitConfig, err)
	}
	if w.policy, err = w.gateway.Policy(config.Numbers(named)); err != nil {
		return withCode(exitConfig, err)
	}
	for _, d := range named {
		if err := w.local.Add(d); err != nil {
			return err
		}
	}
	return loadDicts(&w.local, more)
}

// sealer returns a Sealer that opens values sealed with any limit.
func (w *openedStore) sealer() *envelope.Sealer {
	return envelope.NewSealer(envelope.SealerOptions{Engine: w.engine, Dicts: w.store.Dicts(), MaxRaw: int(w.gateway.MaxSeal), MaxOpen: maxInspectBytes})
}
