package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
)

type diskOptions struct{ filesystem string }

func (o *diskOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.filesystem, "disk", "", "compute what `zfs` or btrfs would store of a directory")
}

func runDisk(context.Context, planOptions) error { return errors.New("not yet") }
