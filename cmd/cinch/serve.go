package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/server"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
)

const (
	configVariable  = "CINCH_CONFIG"
	peerKeyVariable = "CINCH_PEER_KEY_FILE"
)

type serveOptions struct {
	configFile string
	redis      []string // LISTEN=URL
	grpc       []string // LISTEN=URL
	http       []string // LISTEN=URL
	mongo      []string // LISTEN=URI
	tarantool  []string // LISTEN=URL
	postgres   []string // LISTEN=URL
	tunnel     []string // LISTEN=PEER
	tunnelExit []string // LISTEN=UPSTREAM
	listen     string   // address of the gateway to the embedded store
	rules      []string // KEY=VALUE,…
	overrides  []config.Override
	open       bool   // gateways of flags may listen in front of a server without a password
	peerKey    string // file with the key of links, for gateways of flags
	openPeers  bool   // gateways of flags accept links of any client
	pprof      bool
	testForce  bool
	testShared bool

	sockets  *upgrade.Sockets // inherited sockets; or nil
	storeURL string           // of the embedded store, once it runs
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run gateways to stores and services",
		Long: `Run gateways to stores and services.
  Redis, Tarantool   rules choose which values to compress, and how; clients get them decompressed
  HTTP               bodies of requests get another content coding, and replies where a rule says so: docs/HTTP.md
  gRPC, MongoDB      messages are compressed on the wire, if the next hop supports it
  PostgreSQL         connections pass unchanged, and can move to another server without being dropped: docs/POSTGRES.md
  any TCP protocol   --tunnel and --tunnel-exit compress what travels between them: docs/TUNNEL.md

Without --config and without gateways it starts an embedded in-memory store to try Cinch with, behind a gateway on
127.0.0.1:6380. A gateway without a configuration file has one rule, which --rule replaces:
  Redis              strings and hash values of 64 bytes or more, zstd-3
  Tarantool          fields of 64 bytes or more that nothing in the server computes on, zstd-3
  gRPC               messages of 64 bytes or more, zstd
  HTTP               requests of 256 bytes or more, in the best coding that the upstream is known to support
  MongoDB            all messages, zstd-3
Those of Redis and Tarantool have dictionary: auto: dictionaries are trained on the values, and kept in the server, if
the gateway's user may do so (docs/DICTIONARIES.md).

For gRPC, HTTP and MongoDB a gateway at each end saves more: messages are compressed with those before (docs/PEER.md).
The one beside the server has ?peers=true in its URL. Both have the same key (--peer-key-file), which is a file that
'head -c 32 /dev/urandom | base64' writes, unless the one beside the server listens on loopback.

Signals (docs/UPGRADE.md):
  SIGINT, SIGTERM    accept no more clients, let commands in flight finish, end idle connections, for at most the drain
                     timeout; a second signal stops at once
  SIGHUP             read the configuration again: rules, exclude, enabled, pack, dictionaries and the log level change
                     without dropping a connection; the log names what needs a restart
  SIGUSR2            replace the process: start the program at its path with the same arguments and all listening
                     sockets, and drain when that serves
Sockets from systemd go to the gateway of the same name, or else of the same address.

A flag wins over its CINCH_… variable, that wins over the file, and that over the default. docs/CONFIG.md lists all.
With --quiet the log has warnings and errors only, unless --log-level says otherwise.

Exit codes: 0 drained, 1 failed (an address is in use, say), 11 configuration invalid, 130 stopped by a second signal.`,
		Example: `  cinch serve
  cinch serve --redis 127.0.0.1:6380=redis://cache.internal:6379
  cinch serve --redis 127.0.0.1:6380=rediss://cinch:secret@cache.internal --rule 'key=menu:*,setting=zstd-6'
  cinch serve --redis 127.0.0.1:7000=redis+cluster://node1.internal,node2.internal,node3.internal
  cinch serve --grpc 127.0.0.1:9095=grpc://ingester.zone-b:9095
  cinch serve --grpc '0.0.0.0:9095=grpc://127.0.0.1:9094?peers=true' --peer-key-file key   # beside the server
  cinch serve --grpc 127.0.0.1:9095=grpc://gateway.zone-b:9095 --peer-key-file key   # beside the clients
  cinch serve --http '127.0.0.1:9009=https://mimir.zone-b?upstream_encodings=zstd'
  cinch serve --mongo 127.0.0.1:27018=mongodb://db1.internal,db2.internal,db3.internal
  cinch serve --mongo '0.0.0.0:27018=mongodb://127.0.0.1/?peers=true' --peer-key-file key  # beside the database
  cinch serve --mongo 127.0.0.1:27018=mongodb://db1.internal:27018 --peer-key-file key  # beside the application
  cinch serve --tarantool 127.0.0.1:3302=tarantool://cinch:secret@db.internal:3301 --rule 'space=docs,field=body,setting=zstd-3'
  cinch serve --postgres 127.0.0.1:6432=postgres://db.internal:5432
  cinch serve --tunnel-exit 0.0.0.0:9480=db.internal:5432 --peer-key-file key
  cinch serve --tunnel 127.0.0.1:5432=gateway.zone-b.internal:9480 --peer-key-file key
  cinch serve --config /etc/cinch.yaml --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.overrides = flagOverrides(cmd)
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, server.Signals...)
			defer signal.Stop(signals)
			var err error
			if o.sockets, err = upgrade.Inherit(); err != nil {
				return err
			}
			return runServe(o, signals, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration `FILE`; variable "+configVariable)
	o.addGatewayFlags(f)
	f.StringVar(&o.listen, "listen", "", "`ADDR` of the gateway to the embedded store (default "+config.DefaultListen+")")
	f.StringArrayVar(&o.rules, "rule", nil, "a rule for the gateways of flags and the embedded store, `KEY=VALUE,...` with the keys of a rule in the file (may be repeated, the first match decides)")
	for _, flag := range overrideFlags {
		f.String(flag.name, "", flag.usage)
	}
	f.BoolVar(&o.open, "allow-open-listener", false, "allow other machines to reach, through the gateways of flags, servers on this machine that require no password")
	f.StringVar(&o.peerKey, "peer-key-file", "", "`FILE` with the key by which the gateways of flags, and those at the other end of their links, know each other; variable "+peerKeyVariable)
	f.BoolVar(&o.openPeers, "insecure-peers", false, "let any client on other machines open links to the gateways of flags, without a key or a certificate")
	f.BoolVar(&o.pprof, "pprof", false, "serve profiles under /debug/pprof/ on the admin address")
	f.BoolVar(&o.testForce, "test-force", false, "for tests: compress every value that rules cover, even at a loss")
	_ = f.MarkHidden("test-force")
	f.BoolVar(&o.testShared, "test-shared", false, "for tests: let clients of gateways to Redis share connections from the first one on")
	_ = f.MarkHidden("test-shared")
	return cmd
}

// overrideFlags lists the flags that set one key of the configuration.
var overrideFlags = []struct{ name, key, usage string }{
	{"admin", "admin.listen", "`ADDR` of the admin page and /metrics, or off (default " + config.DefaultAdmin + ")"},
	{"admin-token-file", "admin.token_file", "`FILE` with the token that the admin page requires (not on loopback)"},
	{"log-level", "log.level", "`LEVEL`: debug, info, warn or error (default info)"},
	{"log-format", "log.format", "`FORMAT`: text or json (default text)"},
	{"memory", "memory.budget", "memory `SIZE` for the values in flight (default 256MiB)"},
	{"zstd", "zstd", zstdFlag},
	{"drain-delay", "drain_delay", "after the first signal, `TIME` to accept clients while /readyz answers 503 (default 0s)"},
	{"drain-timeout", "drain_timeout", "after the first signal, `TIME` to let commands in flight finish before connections are closed (default 30s)"},
	{"drain-grace", "drain_grace", "after the first signal, `TIME` before clients blocked in a command, such as BLPOP, are disconnected (default 2s)"},
}

func flagOverrides(cmd *cobra.Command) []config.Override {
	var list []config.Override
	for _, flag := range overrideFlags {
		if f := cmd.Flags().Lookup(flag.name); f.Changed {
			list = append(list, config.Override{From: "--" + flag.name, Key: flag.key, Value: f.Value.String()})
		} else if flag.key == "log.level" && quiet(cmd) {
			list = append(list, config.Override{From: "--" + quietFlag, Key: flag.key, Value: "warn"})
		}
	}
	return list
}

// embedded reports whether to run the embedded store.
func (o serveOptions) embedded(getenv func(string) string) bool {
	return o.file(getenv) == "" && !o.hasTargets(getenv)
}

func (o serveOptions) file(getenv func(string) string) string {
	if o.configFile != "" {
		return o.configFile
	}
	return getenv(configVariable)
}

// load combines file, environment and flags.
func (o serveOptions) load(getenv func(string) string) (*config.Config, error) {
	rules, err := o.ruleList()
	if err == nil {
		err = o.checkUse(getenv)
	}
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	var more []config.Gateway
	if o.embedded(getenv) {
		more = append(more, o.embeddedGateway(rules))
	}
	for _, flag := range gatewayFlags {
		gateways, err := flag.gateways(&o, getenv)
		if err != nil {
			return nil, err
		}
		more = append(more, gateways...)
	}
	for i := range more {
		g := &more[i]
		g.AllowOpenListener = o.open
		g.InsecurePeers = o.openPeers && g.AcceptsLinks()
		if g.HasLinks() {
			g.PeerKeyFile = cmp.Or(o.peerKey, getenv(peerKeyVariable))
		}
	}
	if err := o.checkPeerFlags(more); err != nil {
		return nil, withCode(exitConfig, err)
	}
	overrides := append(config.FromEnvironment(getenv), o.overrides...)
	return loadConfig(o.file(getenv), more, overrides)
}

// checkUse rejects flags that would have no effect.
func (o serveOptions) checkUse(getenv func(string) string) error {
	switch {
	case o.listen != "" && !o.embedded(getenv):
		return terminal.WithHint(errors.New("--listen is only for the embedded store"), "write --redis LISTEN=URL")
	case len(o.rules) > 0 && !o.embedded(getenv) && !o.hasTargets(getenv):
		return terminal.WithHint(errors.New("--rule is only for gateways without a configuration file"), "put the rule into the file")
	}
	return nil
}

// checkPeerFlags rejects flags about links that none of the gateways of flags uses.
func (o serveOptions) checkPeerFlags(gateways []config.Gateway) error {
	has := func(f func(*config.Gateway) bool) bool {
		return slices.ContainsFunc(gateways, func(g config.Gateway) bool { return f(&g) })
	}
	switch {
	case o.peerKey != "" && !has((*config.Gateway).HasLinks):
		return terminal.WithHint(errors.New("--peer-key-file is only for gateways of flags that may have links"), "in a configuration file write peer_key_file")
	case o.openPeers && !has((*config.Gateway).AcceptsLinks):
		return terminal.WithHint(errors.New("--insecure-peers is only for gateways of flags that accept links"), "in a configuration file write insecure_peers: true")
	}
	return nil
}

// embeddedGateway returns the gateway to the embedded store. config show uses it without starting a store.
func (o serveOptions) embeddedGateway(rules []config.Rule) config.Gateway {
	listen, upstream := o.listen, o.storeURL
	if listen == "" {
		listen = config.DefaultListen
	}
	if upstream == "" {
		upstream = "redis://127.0.0.1"
	}
	return config.RedisGateway("embedded", listen, upstream, rules)
}

func (o serveOptions) ruleList() ([]config.Rule, error) {
	if len(o.rules) == 0 {
		return []config.Rule{config.DefaultRule()}, nil
	}
	return o.givenRules()
}

func (o serveOptions) givenRules() ([]config.Rule, error) {
	var rules []config.Rule
	for _, text := range o.rules {
		r, err := config.ParseRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func runServe(o serveOptions, signals <-chan os.Signal, out, errs io.Writer) error {
	if o.embedded(os.Getenv) {
		store, err := server.StartEmbedded()
		if err != nil {
			return err
		}
		defer store.Stop()
		o.storeURL = store.URL()
	}
	p, err := server.New(o.process(errs))
	if err != nil {
		return serveFailure(err)
	}
	if o.storeURL != "" {
		printQuickStart(out, p)
	}
	err = p.RunUntil(signals)
	if errors.Is(err, server.ErrCutOff) {
		return withCode(exitInterrupted, err)
	}
	return err
}

// process returns the options of the process that serve runs and config check checks.
func (o serveOptions) process(log io.Writer) server.Options {
	b := readBuild()
	return server.Options{
		Load: func() (*config.Config, error) { return o.load(os.Getenv) }, Log: log,
		Zstd:    server.Zstd{Engine: engineWith, Native: nativeZstd, Train: nativeTrainer()},
		Version: b.Version, Revision: b.Revision,
		PProf: o.pprof, Force: o.testForce, Shared: o.testShared, Embedded: o.storeURL != "", Sockets: o.sockets,
	}
}

// serveFailure adds the hint and the exit code to an error that kept a process from starting.
func serveFailure(err error) error {
	var occupied *server.ListenError
	if errors.As(err, &occupied) {
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, gateway.ErrAddressInUse):
			err = terminal.WithHint(err, "another process, perhaps another cinch, listens there: choose a different address (for the admin page with --admin)")
		case errors.Is(err, os.ErrPermission):
			err = terminal.WithHint(err, "this user lacks the rights for ports below 1024, or for sockets in that directory")
		}
	}
	var invalid *server.ConfigError
	if errors.As(err, &invalid) {
		return withCode(exitConfig, err)
	}
	return err
}

// printQuickStart prints the three lines shown when serve runs without arguments.
func printQuickStart(out io.Writer, p *server.Process) {
	gateways, page := p.Addresses()
	host, port, _ := net.SplitHostPort(gateways[0].String())
	admin := "the admin page is off"
	if page != nil {
		admin = "open http://" + page.String() + "/"
	}
	client := "redis-cli -p " + port
	if host != "127.0.0.1" {
		client = "redis-cli -h " + host + " -p " + port
	}
	fmt.Fprintf(out, "try it    %s SET numbers \"$(seq 2000)\"\nwatch it  %s\nuse it    cinch serve --redis %s=redis://HOST:6379\n",
		client, admin, gateways[0])
}
