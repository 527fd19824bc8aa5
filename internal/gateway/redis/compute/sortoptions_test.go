package compute

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestParseSort(t *testing.T) {
	for line, want := range map[string]string{
		"SORT k":                                  "by= store= gets=[] look=SORT k",
		"SORT k BY w_* GET # GET d_* STORE d":     "by=w_* store=d gets=[false true] look=SORT k BY w_* GET # GET d_*",
		"sort k by nosort limit 0 5 desc alpha":   "by= store= gets=[] look=sort k by nosort desc alpha",
		"SORT k LIMIT 0 5 STORE d DESC LIMIT 1 2": "by= store=d gets=[] look=SORT k DESC LIMIT 1 2",
		"SORT k BY w_* BY nosort":                 "by= store= gets=[] look=SORT k BY w_* BY nosort",
		"SORT k LIMIT 1":                          "broken",
		"SORT k STORE":                            "broken",
		"SORT_RO k STORE d":                       "broken",
		"SORT k FASTER":                           "broken",
	} {
		o := ParseSort(bytes.Fields([]byte(line)))
		got := "broken"
		if !o.Broken {
			got = "by=" + string(o.By) + " store=" + string(o.Store) + " gets=" + spell(o.Gets) + " look=" + string(bytes.Join(o.Look, []byte(" ")))
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
		if !o.Broken && o.Fetches() != slices.Contains(o.Gets, true) {
			t.Errorf("%s: fetches %v", line, o.Fetches())
		}
	}
}

func spell(gets []bool) string {
	words := make([]string, len(gets))
	for i, g := range gets {
		if words[i] = "false"; g {
			words[i] = "true"
		}
	}
	return "[" + strings.Join(words, " ") + "]"
}
