package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// A bundle is a directory with a file for each dictionary of a store. Copies of the store that are made without a
// gateway need it, since compressed values can't be read without their dictionaries.

func newDictExportCommand() *cobra.Command {
	var all bool
	var m copiedDicts
	cmd := &cobra.Command{
		Use:   "export URL {NUMBER FILE | --all DIR}",
		Short: "Write a dictionary of a store to a file, or all of them to a directory",
		Long: `Write a dictionary of a store to a file. With --all write every dictionary, archived ones too, to a directory. Values
that leave the store compressed (DUMP, RDB files, snapshots, copies of tuples) can't be read without them.

From a cluster, or from shards, it takes the dictionaries of all nodes. Existing files are kept.`,
		Example: `  cinch dict export redis://127.0.0.1:6379 0a1b2c3d orders.dict
  cinch dict export redis://127.0.0.1:6379 --all bundle
  cinch dict import redis://elsewhere:6379 bundle`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return cobra.ExactArgs(2)(cmd, args)
			}
			return cobra.ExactArgs(3)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			m.out = cmd.OutOrStdout()
			if all {
				return m.end(runDictExportAll(cmd.Context(), &m, args[0], args[1]))
			}
			return m.end(runDictExport(cmd.Context(), &m, args[0], args[1], args[2]))
		},
	}
	m.jsonFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "write every dictionary of the store, into a directory")
	return cmd
}

func runDictExport(ctx context.Context, m *copiedDicts, rawURL, text, file string) error {
	number, err := parseNumber(text)
	if err != nil {
		return err
	}
	s, err := open.OpenAccess(ctx, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := s.DictAdmin().Dictionary(number)
	if errors.Is(err, envelope.ErrDictMissing) {
		return withCode(exitDictMissing, fmt.Errorf("%s: %w: %08x", s.DictAdmin().Name(), err, number))
	}
	if err != nil {
		return err
	}
	if err := dict.Save(file, d); err != nil {
		return err
	}
	m.add(copiedDict{Number: fmt.Sprintf("%08x", number), Bytes: len(d.Content()), To: file}, "written to")
	return nil
}

// runDictExportAll writes what it can, and fails if that was not everything.
func runDictExportAll(ctx context.Context, m *copiedDicts, rawURL, dir string) error {
	s, err := open.OpenAccess(ctx, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := s.DictAdmin().List(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var errs []error
	for _, i := range list {
		number := fmt.Sprintf("%08x", i.Number)
		file := filepath.Join(dir, number+".dict")
		d, err := s.DictAdmin().Dictionary(i.Number)
		switch {
		case errors.Is(err, envelope.ErrDictMissing):
			err = withCode(exitDictMissing, fmt.Errorf("%s: %w: %s", s.DictAdmin().Name(), err, number))
		case err == nil:
			err = dict.Save(file, d)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m.add(copiedDict{Number: number, Bytes: len(d.Content()), To: file}, "written to")
	}
	if len(list) == 0 {
		m.none("no dictionaries in " + s.DictAdmin().Name())
	}
	return errors.Join(errs...)
}

func newDictImportCommand() *cobra.Command {
	var m copiedDicts
	cmd := &cobra.Command{
		Use:   "import URL {FILE | DIR}…",
		Short: "Put dictionaries' files into a store, or archived ones back into use",
		Long: `Put dictionaries into a store, where gateways and readers find them by their numbers: from files, or from all *.dict
files of a directory that 'cinch dict export --all' wrote. In a cluster, and in shards, every node gets them.

A dictionary that was retired, archived or erased there becomes live again. A rule names it by its number: setting:
zstd-3@0a1b2c3d.`,
		Example: `  cinch dict import redis://127.0.0.1:6379 orders.dict
  cinch dict import tarantool://cinch:secret@127.0.0.1:3301 bundle`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.out = cmd.OutOrStdout()
			files, err := dictFiles(args[1:])
			if err != nil {
				return err
			}
			for _, file := range files {
				if err = runDictImport(cmd.Context(), &m, args[0], file); err != nil {
					break
				}
			}
			return m.end(err)
		},
	}
	m.jsonFlag(cmd)
	return cmd
}

func runDictImport(ctx context.Context, m *copiedDicts, rawURL, file string) error {
	d, err := loadDict(file)
	if err != nil {
		return err
	}
	s, err := open.OpenAccess(ctx, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.DictAdmin().Restore(ctx, d); err != nil {
		return err
	}
	m.add(copiedDict{Number: fmt.Sprintf("%08x", d.Number()), Bytes: len(d.Content()), From: file, To: s.DictAdmin().Name()}, "stored in")
	return nil
}

// dictFiles replaces directories by their *.dict files.
func dictFiles(names []string) (files []string, err error) {
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			files = append(files, name)
			continue
		}
		found, err := filepath.Glob(filepath.Join(name, "*.dict"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, terminal.WithHint(fmt.Errorf("%s has no *.dict files", name), "'cinch dict export URL --all %s' writes them", name)
		}
		files = append(files, found...)
	}
	return files, nil
}
