package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// ErrInvalid is wrapped by every error about a configuration's content.
var ErrInvalid = errors.New("invalid configuration")

// Problem is one problem of a configuration, printed as "cinch.yaml:12: gateways[0].listen: what: hint".
type Problem struct {
	File string `json:"file,omitempty"` // "" if it does not concern a file
	Line int    `json:"line,omitempty"` // from 1; 0 when unknown
	Path string `json:"key,omitempty"`  // of the key, or the flag's or variable's name
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// Place returns where the problem is, "cinch.yaml:12: gateways[0].listen"; "" when that is unknown.
func (p Problem) Place() string {
	place := p.File
	if p.File != "" && p.Line > 0 {
		place = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if place != "" && p.Path != "" {
		place += ": "
	}
	return place + p.Path
}

func (p Problem) String() string {
	text := p.Text
	if place := p.Place(); place != "" {
		text = place + ": " + text
	}
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	return text
}

// Error holds all problems found, in the order of the lines.
type Error struct{ Problems []Problem }

// Error returns all problems, one per line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }

// problems collects the problems of c.
type problems struct {
	c    *Config
	list []Problem
}

// add records a problem of the value at path. The hint may be empty.
func (ps *problems) add(path, hint, format string, args ...any) {
	p := Problem{Path: path, Text: fmt.Sprintf(format, args...), Hint: hint}
	if from := ps.c.origin(path); from != "" {
		p.Path = from
	} else if line := ps.c.line(path); line > 0 {
		p.File, p.Line = ps.c.file, line
	}
	ps.list = append(ps.list, p)
}

// origin returns the variable or flag that set the key at path, or "" if it is from a file. A flag may set
// part of a gateway, such as --rule.setting.
func (c *Config) origin(path string) string {
	if from := c.origins[path]; from != "" {
		return from
	}
	var gateway, rule int
	if _, err := fmt.Sscanf(path, "gateways[%d]", &gateway); err != nil || gateway < c.inFile {
		return ""
	}
	place, rest, _ := strings.Cut(path, "]")
	at := slices.IndexFunc(c.Gateways, func(g Gateway) bool { return g.path == place+"]" })
	if at < 0 {
		return ""
	}
	flag := "--" + c.Gateways[at].Protocol
	if _, err := fmt.Sscanf(rest, ".rules[%d]", &rule); err == nil {
		_, rest, _ = strings.Cut(rest, "]")
		flag = "--rule"
		if rule > 0 {
			flag = fmt.Sprintf("--rule (number %d)", rule+1)
		}
	}
	return flag + rest
}

func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	slices.SortStableFunc(ps.list, func(a, b Problem) int { return a.Line - b.Line })
	return &Error{ps.list}
}

// line returns the line of path in the file, or of the nearest key around it. 0 means that it is not from the
// file.
func (c *Config) line(path string) int {
	for path != "" {
		if line, ok := c.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

// Invalid returns err as an *Error about the key at path, or nil for nil.
func (c *Config) Invalid(path string, err error) error {
	if err == nil {
		return nil
	}
	ps := problems{c: c}
	ps.add(path, terminal.Hint(err), "%v", err)
	return ps.err()
}

// InvalidGateway is Invalid for a key of a gateway, such as "tls".
func (c *Config) InvalidGateway(g *Gateway, key string, err error) error {
	return c.Invalid(g.path+"."+key, err)
}
