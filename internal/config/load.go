package config

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// Load reads a file ("" for none, "-" for standard input), applies the overrides in order, adds more
// gateways, which come from flags, and validates the result. Errors other than those of reading the file are
// an *Error and wrap ErrInvalid.
func Load(file string, more []Gateway, overrides ...Override) (*Config, error) {
	if file == "" {
		return finish(Default(), more, overrides)
	}
	text, err := read(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text, more, overrides...)
}

// Process returns a configuration without gateways, from overrides only, for commands that read no file.
func Process(overrides ...Override) (*Config, error) {
	c := Default()
	if err := c.override(overrides); err != nil {
		return nil, err
	}
	v := validator{problems{c: c}}
	v.process()
	return c, v.err()
}

func read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}

// Parse is Load for a file's text; file is used in errors and for relative paths.
func Parse(file string, text []byte, more []Gateway, overrides ...Override) (*Config, error) {
	c := Default()
	c.file = file
	if err := c.decodeYAML(text); err != nil {
		return nil, err
	}
	c.hasSecrets = c.hasPasswords()
	return finish(c, more, overrides)
}

func finish(c *Config, more []Gateway, overrides []Override) (*Config, error) {
	if err := c.override(overrides); err != nil {
		return nil, err
	}
	given := slices.Concat(c.Gateways, more)
	c.inFile, c.Gateways = len(c.Gateways), nil
	for i := range given {
		g := given[i].clone()
		g.path = fmt.Sprintf("gateways[%d]", i)
		members, err := g.perMember()
		if err != nil { // the validator reports it
			members = []Gateway{g}
		}
		c.Gateways = append(c.Gateways, members...)
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.fillDefaults()
	return c, nil
}

// fillDefaults sets defaults that depend on other values.
func (c *Config) fillDefaults() {
	for i := range c.Gateways {
		g := &c.Gateways[i]
		if g.MaxOpen == nil {
			size := max(g.MaxSeal, DefaultMaxOpen)
			g.MaxOpen = &size
		}
		for j := range g.Rules {
			r := &g.Rules[j]
			if r.Name == "" {
				r.Name = fmt.Sprintf("rule-%d", j+1)
			}
			r.setGain(g.Protocol)
			if g.Protocol == Mongo && r.MinSize == nil {
				r.MinSize = new(Bytes) // over a link short messages get smaller too
			}
			size := r.minSize()
			r.MinSize = &size
		}
	}
}
