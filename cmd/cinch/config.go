package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/server"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or show the effective configuration",
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
		Short: "Report errors in a configuration file",
		Long: `Report errors in a configuration: unknown keys, bad values, files that can't be read. It makes the checks that serve
makes when it starts, but opens no port and no connection: serve starts with a configuration that passes, unless a port
is in use or an address does not belong to this machine. Warnings name probable mistakes.
The configuration comes from FILE, from standard input (-), or without either from the file that CINCH_CONFIG names.
CINCH_… variables override it, as for serve.

Exit codes: 0 valid, 11 invalid.`,
		Example: `  cinch config check cinch.yaml && systemctl reload cinch
  helm template CHART | yq 'select(.kind == "ConfigMap").data["cinch.yaml"]' | cinch config check -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := os.Getenv(configVariable)
			if len(args) == 1 {
				file = args[0]
			}
			if file == "" {
				return wrongUsage(terminal.WithHint(errors.New("no configuration file given"), "write 'cinch config check cinch.yaml', or set "+configVariable))
			}
			return runConfigCheck(file, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// checked is the result of the check, as --json prints it.
type checked struct {
	File         string           `json:"file"`
	OK           bool             `json:"ok"`
	Gateways     int              `json:"gateways"`
	Rules        int              `json:"rules"`
	Dictionaries int              `json:"dictionaries"`
	Problems     []config.Problem `json:"problems"`
	Warnings     []config.Problem `json:"warnings"`
}

func runConfigCheck(file string, asJSON bool, out, errs io.Writer) error {
	found, err := server.Check(serveOptions{configFile: file}.process(io.Discard))
	err = serveFailure(err)
	c := checked{File: file, OK: err == nil, Problems: problemsOf(err), Warnings: append([]config.Problem{}, found.Warnings...)}
	if cfg := found.Config; cfg != nil {
		c.Gateways, c.Dictionaries = len(cfg.Gateways), len(cfg.Dictionaries)
		for i := range cfg.Gateways {
			c.Rules += len(cfg.Gateways[i].Rules)
		}
	}
	if asJSON {
		return errors.Join(json.NewEncoder(out).Encode(c), markPrinted(err))
	}
	if err != nil {
		return err
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(errs, "warning: %s\n", w)
	}
	_, err = fmt.Fprintf(out, "%s: ok (%s, %s, %s)\n", file, count(c.Gateways, "gateway", "gateways"),
		count(c.Rules, "rule", "rules"), count(c.Dictionaries, "dictionary", "dictionaries"))
	return err
}

// problemsOf returns the problems of a configuration that an error holds.
func problemsOf(err error) []config.Problem {
	var invalid *config.Error
	switch {
	case err == nil:
		return []config.Problem{}
	case errors.As(err, &invalid):
		return invalid.Problems
	}
	return []config.Problem{{Text: err.Error(), Hint: terminal.Hint(err)}}
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

// loadConfig is config.Load with the exit code and hint for its errors.
func loadConfig(file string, more []config.Gateway, overrides []config.Override) (*config.Config, error) {
	cfg, err := config.Load(file, more, overrides...)
	if os.IsNotExist(err) {
		err = terminal.WithHint(err, "docs/CONFIG.md has an example to start from")
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
