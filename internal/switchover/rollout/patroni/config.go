package patroni

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A member's configuration is edited as a YAML document, so that comments, order and unknown keys stay.

// ErrConfig is wrapped by errors about a configuration that can't be read or edited.
var ErrConfig = errors.New("the configuration of Patroni")

// NewMember holds the values in which the configuration of a new member differs from that of the member it
// replaces.
type NewMember struct {
	Name       string
	Address    string            // host:port of PostgreSQL
	API        string            // host:port of the REST API
	Data, Bin  string            // directories; empty Bin: unchanged
	Parameters map[string]string // of PostgreSQL
}

// Derive returns the configuration of a new member, made from that of the old one.
func Derive(text []byte, m NewMember) ([]byte, error) {
	document, root, err := parse(text)
	if err != nil {
		return nil, err
	}
	api, server := section(root, "restapi"), section(root, "postgresql")
	set(root, "name", m.Name)
	set(api, "listen", listen(scalar(api, "listen"), m.API))
	set(api, "connect_address", m.API)
	set(server, "listen", listen(scalar(server, "listen"), m.Address))
	set(server, "connect_address", m.Address)
	set(server, "data_dir", m.Data)
	if m.Bin != "" {
		set(server, "bin_dir", m.Bin)
	}
	// Members on one machine would overwrite each other's file.
	if file := scalar(server, "pgpass"); file != "" {
		set(server, "pgpass", file+"."+m.Name)
	}
	if scalar(server, "config_dir") != "" {
		return nil, fmt.Errorf("%w has postgresql.config_dir, whose files would be missing from a copy: write the new member's configuration yourself", ErrConfig)
	}
	parameters := maps.Clone(m.Parameters)
	delete(parameters, "port") // Patroni sets it by listen
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		set(section(server, "parameters"), name, parameters[name])
	}
	return render(document)
}

// listen returns the address now. If the host in was stands for all addresses, that host is kept.
func listen(was, now string) string {
	host, _, err := net.SplitHostPort(was)
	_, port, nowErr := net.SplitHostPort(now)
	if err != nil || nowErr != nil || !slices.Contains([]string{"", "*", "0.0.0.0", "::"}, host) {
		return now
	}
	return net.JoinHostPort(host, port)
}

// SetTags sets tags, drops those that are nil, and returns their old values.
func SetTags(text []byte, tags map[string]any) (edited []byte, was map[string]any, err error) {
	document, root, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	have := section(root, "tags")
	was = map[string]any{}
	for name := range tags {
		var old any
		if n := child(have, name); n != nil {
			if err := n.Decode(&old); err != nil {
				return nil, nil, fmt.Errorf("%w: tag %s: %w", ErrConfig, name, err)
			}
		}
		was[name] = old
		drop(have, name)
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if tags[name] == nil {
			continue
		}
		var n yaml.Node
		if err := n.Encode(tags[name]); err != nil {
			return nil, nil, fmt.Errorf("%w: tag %s: %w", ErrConfig, name, err)
		}
		have.Content = append(have.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &n)
	}
	edited, err = render(document)
	return edited, was, err
}

// MemberName returns the name of the member in a configuration.
func MemberName(text []byte) (string, error) {
	_, root, err := parse(text)
	if err != nil {
		return "", err
	}
	return scalar(root, "name"), nil
}

func parse(text []byte) (document, root *yaml.Node, err error) {
	document = &yaml.Node{}
	if err := yaml.Unmarshal(text, document); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("%w is not a mapping", ErrConfig)
	}
	return document, document.Content[0], nil
}

func render(document *yaml.Node) ([]byte, error) {
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(document), e.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return []byte(out.String()), nil
}

// child returns the value of a key of a mapping, or nil.
func child(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func scalar(mapping *yaml.Node, key string) string {
	if n := child(mapping, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// section returns the mapping at a key of another one, and makes it if it is missing.
func section(mapping *yaml.Node, key string) *yaml.Node {
	n := child(mapping, key)
	switch {
	case n == nil:
		n = &yaml.Node{Kind: yaml.MappingNode}
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, n)
	case n.Kind == yaml.AliasNode: // editing the alias would change the anchor
		copied := *n.Alias
		copied.Anchor = ""
		copied.Content = slices.Clone(copied.Content)
		*n = copied
	case n.Kind != yaml.MappingNode:
		*n = yaml.Node{Kind: yaml.MappingNode}
	}
	return n
}

func set(mapping *yaml.Node, key, v string) {
	if n := child(mapping, key); n != nil {
		*n = yaml.Node{Kind: yaml.ScalarNode, Value: v, Style: n.Style, LineComment: n.LineComment}
		n.Tag = "!!str"
		return
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: yaml.DoubleQuotedStyle})
}

func drop(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}
