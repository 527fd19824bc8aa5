package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/ui"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or show what it amounts to",
		Example: `  cinch config check cinch.yaml
  cinch config show cinch.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newConfigCheckCommand(), newConfigShowCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE | -]",
		Short: "Find what is wrong with a configuration file",
		Long: `Find what is wrong with a configuration: unknown keys, bad values, dictionaries and certificates that can't be read.
It comes from FILE, from standard input (-), or without either from the file that CINCH_CONFIG names. CINCH_… variables
count as they do for serve. The check opens no port and no connection.

Exit codes: 0 it is valid, 11 it is not.`,
		Example: `  cinch config check cinch.yaml && systemctl reload cinch
  helm template CHART | yq 'select(.kind == "ConfigMap").data["cinch.yaml"]' | cinch config check -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := os.Getenv(configVariable)
			if len(args) == 1 {
				file = args[0]
			}
			if file == "" {
				return wrongUsage(ui.WithHint(errors.New("which file?"), "write 'cinch config check cinch.yaml', or set "+configVariable))
			}
			return runConfigCheck(file, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// checked is what a valid configuration has.
type checked struct {
	File         string `json:"file"`
	Gateways     int    `json:"gateways"`
	Rules        int    `json:"rules"`
	Dictionaries int    `json:"dictionaries"`
}

func runConfigCheck(file string, asJSON bool, out io.Writer) error {
	cfg, err := serveOptions{configFile: file}.load(os.Getenv)
	if err != nil {
		return err
	}
	if err := checkFiles(cfg); err != nil {
		return withCode(exitConfig, err)
	}
	c := checked{File: file, Gateways: len(cfg.Gateways), Dictionaries: len(cfg.Dictionaries)}
	for i := range cfg.Gateways {
		c.Rules += len(cfg.Gateways[i].Rules)
	}
	if asJSON {
		return json.NewEncoder(out).Encode(c)
	}
	_, err = fmt.Fprintf(out, "%s: ok (%s, %s, %s)\n", file, count(c.Gateways, "gateway", "gateways"),
		count(c.Rules, "rule", "rules"), count(c.Dictionaries, "dictionary", "dictionaries"))
	return err
}

// checkFiles reads everything that serve would read, and builds the policies.
func checkFiles(cfg *config.Config) error {
	dicts, err := cfg.LoadDictionaries()
	if err != nil {
		return err
	}
	if _, err := cfg.LoadPrices(); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	for i := range cfg.Gateways {
		g := &cfg.Gateways[i]
		if _, err := cfg.ServerTLS(g, log); err != nil {
			return err
		}
		if _, err := cfg.UpstreamOf(g, log); err != nil {
			return err
		}
		if !g.HasStore() {
			_, err = g.Messages(dicts)
		} else {
			_, err = g.Policy(config.Numbers(dicts))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func newConfigShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print the configuration with defaults and environment filled in",
		Long: `Print the configuration that serve would run with, as YAML: the file (or the one that CINCH_CONFIG names), with
CINCH_… variables and all defaults filled in. Passwords in URLs are shown as xxxxx. Without a file it prints what
'cinch serve' does without one.`,
		Example: `  cinch config show cinch.yaml
  CINCH_LOG_LEVEL=debug cinch config show`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o serveOptions
			if len(args) == 1 {
				o.configFile = args[0]
			}
			return runConfigShow(o, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func runConfigShow(o serveOptions, asJSON bool, out io.Writer) error {
	cfg, err := o.load(os.Getenv)
	if err != nil {
		return err
	}
	write := cfg.Redacted().YAML
	if asJSON {
		write = cfg.Redacted().JSON
	}
	text, err := write()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// loadConfig is config.Load with the exit code and hint that go with its errors.
func loadConfig(file string, more []config.Gateway, overrides []config.Override) (*config.Config, error) {
	cfg, err := config.Load(file, more, overrides...)
	if os.IsNotExist(err) {
		err = ui.WithHint(err, "docs/CONFIG.md has an example to start from")
	}
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	p, err := config.ReadPasswords(os.Getenv)
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	cfg.FillPasswords(p)
	return cfg, nil
}
