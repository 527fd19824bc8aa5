// Command cmd prints the figures of the house rules for the packages of this module and of codec:
//
//	go run ./internal/archtest/cmd [-C MODULE] [-back] [PACKAGE...]
//
// For each package it prints the lines of code and tests, the lengths of functions (median, 90th percentile,
// longest), the number of arrows between its files, how many of these run back up, and the type with the most
// methods with the number of files that hold them. Below it lists what is large, names with several meanings
// in gateways, and interfaces for dictionaries. archtest.Measure defines arrows; -back lists those that run
// back up, with the order in which files are read.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cinch-layer/cinch/internal/archtest"
)

func main() {
	dir := flag.String("C", ".", "`directory` of the module")
	listBack := flag.Bool("back", false, "list the arrows that run back up")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = archtest.Product
	}
	all, err := archtest.Measure(*dir, patterns...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	printPackages(all)
	printTypes(all)
	printNames(all)
	if *listBack {
		printBack(all)
	}
}

func printPackages(all []archtest.Package) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "package\tlines\ttests\tfunctions\tarrows\tback\tmost methods")
	var sum archtest.Package
	for _, p := range all {
		printPackage(w, p)
		sum.Lines += p.Lines
		sum.TestLines += p.TestLines
		sum.Funcs = append(sum.Funcs, p.Funcs...)
		sum.Arrows = append(sum.Arrows, p.Arrows...)
		sum.Back = append(sum.Back, p.Back...)
	}
	slices.Sort(sum.Funcs)
	sum.Path = "all"
	printPackage(w, sum)
}

func printPackage(w *tabwriter.Writer, p archtest.Package) {
	most := ""
	if len(p.Types) > 0 && p.Types[0].Methods > 0 {
		most = fmt.Sprintf("%s %d in %d files", p.Types[0].Name, p.Types[0].Methods, p.Types[0].Files)
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d/%d/%d\t%d\t%d\t%s\n", p.Path, p.Lines, p.TestLines,
		percentile(p.Funcs, 50), percentile(p.Funcs, 90), percentile(p.Funcs, 100), len(p.Arrows), len(p.Back), most)
}

func percentile(sorted []int, p int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

func printTypes(all []archtest.Package) {
	type typed struct {
		archtest.Type
		path string
	}
	var large []typed
	for _, p := range all {
		for _, t := range p.Types {
			if t.Methods >= 25 {
				large = append(large, typed{t, p.Path})
			}
		}
	}
	slices.SortStableFunc(large, func(a, b typed) int { return cmp.Compare(b.Methods, a.Methods) })
	fmt.Println("\ntypes with 25 methods and more:")
	for _, t := range large {
		fmt.Printf("  %s.%s: %d in %d files\n", t.path, t.Name, t.Methods, t.Files)
	}
}

func printNames(all []archtest.Package) {
	names := archtest.Homonyms(all)
	fmt.Printf("\n%d names of types in gateways mean several things:\n", len(names))
	for _, n := range names {
		fmt.Println(" ", n)
	}
	var dicts []string
	for _, p := range all {
		for _, t := range p.Types {
			if t.Dicts && !strings.HasPrefix(p.Path, "codec") {
				dicts = append(dicts, strings.TrimPrefix(p.Path+"."+t.Name, ".."))
			}
		}
	}
	fmt.Printf("\n%d interfaces take or return dictionaries:\n", len(dicts))
	for _, d := range dicts {
		fmt.Println(" ", d)
	}
}

func printBack(all []archtest.Package) {
	for _, p := range all {
		if len(p.Back) == 0 {
			continue
		}
		fmt.Printf("\n%s is read: %s\n", p.Path, strings.Join(p.Order, " "))
		for _, a := range p.Back {
			fmt.Printf("  %s uses %s\n", a.From, a.To)
		}
	}
}
