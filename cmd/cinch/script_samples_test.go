package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// writeOrders writes similar but different documents of an online shop: orders N FILE (one per line) or
// orders -files N DIR (one per file).
func writeOrders(ts *testscript.TestScript, neg bool, args []string) {
	perFile := len(args) == 3 && args[0] == "-files"
	if perFile {
		args = args[1:]
	}
	n, to := sampleArgs(ts, neg, args)
	r := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	for i := range n {
		doc := fmt.Sprintf(`{"id":%d,"customer":{"id":%d,"tier":"silver"},"currency":"EUR","lines":[{"sku":"SKU-%06d","quantity":%d}],"country":"%s"}`,
			1000+i, r.IntN(9000), r.IntN(1e6), 1+r.IntN(9), []string{"DE", "FR", "PT"}[r.IntN(3)])
		if perFile {
			ts.Check(os.WriteFile(fmt.Sprintf("%s/%d.json", to, i), []byte(doc), 0o600))
		}
		lines.WriteString(doc + "\n")
	}
	if !perFile {
		ts.Check(os.WriteFile(to, []byte(lines.String()), 0o600))
	}
}

// writeNoise writes files with nothing in common: noise N DIR.
func writeNoise(ts *testscript.TestScript, neg bool, args []string) {
	n, to := sampleArgs(ts, neg, args)
	r := rand.NewChaCha8([32]byte{})
	for i := range n {
		b := make([]byte, 300)
		_, _ = r.Read(b)
		ts.Check(os.WriteFile(fmt.Sprintf("%s/%d", to, i), b, 0o600))
	}
}

// writeNumbers writes the decimal numbers from 1 on, one per line: numbers BYTES FILE.
func writeNumbers(ts *testscript.TestScript, neg bool, args []string) {
	n, to := sampleArgs(ts, neg, args)
	var b []byte
	for i := 1; len(b) < n; i++ {
		b = fmt.Appendf(b, "%d\n", i)
	}
	ts.Check(os.WriteFile(to, b[:n], 0o600))
}

func sampleArgs(ts *testscript.TestScript, neg bool, args []string) (n int, path string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: COMMAND N PATH")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	return n, ts.MkAbs(args[1])
}
