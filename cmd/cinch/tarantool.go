package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

func newTarantoolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tarantool",
		Short:   "Prepare a Tarantool server for Cinch",
		Long:    "Prepare a Tarantool server for Cinch. docs/TARANTOOL.md explains the use of the stored functions.",
		Example: "  cinch tarantool init tarantool://admin:secret@127.0.0.1:3301 --user app",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(newTarantoolInitCommand())
	return cmd
}

type tarantoolInitOptions struct {
	url    string
	users  []string
	dryRun bool
	remove bool
	lua    bool
	asJSON bool
	out    io.Writer
}

func newTarantoolInitCommand() *cobra.Command {
	var o tarantoolInitOptions
	cmd := &cobra.Command{
		Use:   "init URL",
		Short: "Install the stored functions and the dictionaries' space, once, on the master",
		Long: `Install Cinch's stored functions and the space for dictionaries in a Tarantool server. An administrator runs it once,
on the master; replicas receive it. The user needs the right to run Lua (execute on universe). You may repeat it: it adds
what is missing, updates what is old, prints what it changed, and never loses data.

Every user may then call the functions that run with the caller's own rights, and see which fields constraints read.
Dictionaries hold pieces of values: only administrators and users (or roles) named with --user may read and add them.

--lua prints cinch.lua, which compresses and decompresses values in the server's own Lua.`,
		Example: `  cinch tarantool init tarantool://admin:secret@127.0.0.1:3301 --user app --dry-run
  cinch tarantool init tarantool://admin:secret@127.0.0.1:3301 --user app --user cinch
  cinch tarantool init --lua > /usr/share/tarantool/cinch.lua`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.out = cmd.OutOrStdout()
			if len(args) == 1 {
				o.url = args[0]
			}
			return runTarantoolInit(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.users, "user", nil, "`NAME` of a user or role that may read and add dictionaries (may be repeated)")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	f.BoolVar(&o.remove, "remove", false, "remove what init installed, except for dictionaries")
	f.BoolVar(&o.lua, "lua", false, "write the Lua module cinch.lua to standard output")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	cmd.MarkFlagsMutuallyExclusive("lua", "user")
	cmd.MarkFlagsMutuallyExclusive("lua", "remove")
	return cmd
}

func runTarantoolInit(ctx context.Context, o tarantoolInitOptions) error {
	if o.lua && o.url != "" {
		return wrongUsage(terminal.WithHint(errors.New("--lua takes no URL"), "it prints the module, for a file in the server's package.path"))
	}
	if o.lua {
		_, err := io.WriteString(o.out, storetarantool.Module)
		return err
	}
	if o.url == "" {
		return wrongUsage(terminal.WithHint(errors.New("no server given"), "give its URL: tarantool://admin:secret@host:3301"))
	}
	c, up, err := open.ConnectTarantool(ctx, o.url)
	if err != nil {
		return err
	}
	defer c.Close()
	did, err := storetarantool.Install(ctx, c, storetarantool.InstallOptions{Users: o.users, DryRun: o.dryRun, Remove: o.remove})
	if err != nil {
		return storetarantool.Explain(up.String(), err)
	}
	return o.tell(installed{Server: up.String(), DryRun: o.dryRun, Steps: did})
}

// installed is the result as JSON, which is a contract: fields are added, never renamed.
type installed struct {
	Server string   `json:"server"`
	DryRun bool     `json:"dry_run"` // nothing was changed
	Steps  []string `json:"steps"`
}

func (o tarantoolInitOptions) tell(i installed) error {
	if o.asJSON {
		i.Steps = append([]string{}, i.Steps...)
		return json.NewEncoder(o.out).Encode(i)
	}
	for _, step := range i.Steps {
		if i.DryRun {
			step = "would have " + step
		}
		fmt.Fprintf(o.out, "%s: %s\n", i.Server, step)
	}
	if len(i.Steps) == 0 {
		fmt.Fprintf(o.out, "%s: nothing to do\n", i.Server)
	}
	return nil
}
