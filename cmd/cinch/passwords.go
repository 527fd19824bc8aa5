package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config"
)

const passwordFlag = "password-file"

// addPasswords adds the flag for passwords that are not on the command line to all commands.
func addPasswords(root *cobra.Command) {
	root.PersistentFlags().String(passwordFlag, "", "`FILE` with passwords for URLs that name a user and no password: lines host:port:user:password, or one password; variables "+config.PasswordFileVariable+" and "+config.PasswordVariable)
}

// fillPasswords adds passwords to the URLs in arguments and flags. The flag's file applies to the
// configuration too, which is read later.
func fillPasswords(cmd *cobra.Command, args []string) error {
	if f := cmd.Flags().Lookup(passwordFlag); f != nil && f.Changed {
		if err := os.Setenv(config.PasswordFileVariable, f.Value.String()); err != nil {
			return err
		}
	}
	p, err := config.ReadPasswords(os.Getenv)
	if err != nil {
		return withCode(exitConfig, err)
	}
	cmd.SetContext(context.WithValue(cmd.Context(), passwordsKey{}, p))
	for i := range args { // the command gets the same slice
		args[i] = p.FillArgument(args[i])
	}
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != passwordFlag {
			errs = append(errs, fillFlag(f, p))
		}
	})
	return errors.Join(errs...)
}

type passwordsKey struct{}

// passwordsOf returns the passwords that were added to the command's URLs; nil: none were.
func passwordsOf(ctx context.Context) *config.Passwords {
	p, _ := ctx.Value(passwordsKey{}).(*config.Passwords)
	return p
}

func fillFlag(f *pflag.Flag, p *config.Passwords) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := list.GetSlice()
		for i := range values {
			values[i] = p.FillArgument(values[i])
		}
		return list.Replace(values)
	}
	if f.Value.Type() != "string" {
		return nil
	}
	return f.Value.Set(p.FillArgument(f.Value.String()))
}
