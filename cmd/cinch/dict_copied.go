package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// copiedDict is a dictionary that export, import or sync has copied. Its JSON is a contract: fields are added,
// never renamed.
type copiedDict struct {
	Number string `json:"number"`
	Bytes  int    `json:"bytes,omitempty"`
	From   string `json:"from,omitempty"` // a file
	To     string `json:"to"`             // a file, a store, or one node of it
}

// copiedDicts prints each copied dictionary at once, or all as JSON at the end.
type copiedDicts struct {
	out    io.Writer
	asJSON bool
	list   []copiedDict
}

// jsonFlag adds the flag --json.
func (m *copiedDicts) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.asJSON, "json", false, "write JSON")
}

func (m *copiedDicts) add(d copiedDict, did string) {
	m.list = append(m.list, d)
	switch {
	case m.asJSON:
	case d.Bytes > 0:
		fmt.Fprintf(m.out, "%s: %d bytes %s %s\n", d.Number, d.Bytes, did, d.To)
	default:
		fmt.Fprintf(m.out, "%s: %s %s\n", d.Number, did, d.To)
	}
}

// none prints why no dictionary was copied.
func (m *copiedDicts) none(why string) {
	if !m.asJSON {
		fmt.Fprintln(m.out, why)
	}
}

// end completes the output, also after a command that has failed.
func (m *copiedDicts) end(err error) error {
	if !m.asJSON {
		return err
	}
	if m.list == nil {
		m.list = []copiedDict{}
	}
	if written := json.NewEncoder(m.out).Encode(m.list); err == nil {
		err = written
	}
	return err
}
