package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// movedDict is a dictionary that a command has written somewhere. Its JSON is a contract: fields are added,
// never renamed.
type movedDict struct {
	Number string `json:"number"`
	Bytes  int    `json:"bytes,omitempty"`
	From   string `json:"from,omitempty"` // a file
	To     string `json:"to"`             // a file, a store, or one node of it
}

// movedDicts reports each dictionary at once, or all as JSON at the end.
type movedDicts struct {
	out    io.Writer
	asJSON bool
	list   []movedDict
}

// jsonFlag adds the flag --json.
func (m *movedDicts) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.asJSON, "json", false, "write JSON")
}

func (m *movedDicts) add(d movedDict, did string) {
	m.list = append(m.list, d)
	switch {
	case m.asJSON:
	case d.Bytes > 0:
		fmt.Fprintf(m.out, "%s: %d bytes %s %s\n", d.Number, d.Bytes, did, d.To)
	default:
		fmt.Fprintf(m.out, "%s: %s %s\n", d.Number, did, d.To)
	}
}

// none reports why there are no dictionaries.
func (m *movedDicts) none(why string) {
	if !m.asJSON {
		fmt.Fprintln(m.out, why)
	}
}

// end completes the output, also after a command that has failed.
func (m *movedDicts) end(err error) error {
	if !m.asJSON {
		return err
	}
	if m.list == nil {
		m.list = []movedDict{}
	}
	if written := json.NewEncoder(m.out).Encode(m.list); err == nil {
		err = written
	}
	return err
}
