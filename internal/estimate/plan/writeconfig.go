package plan

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy"
)

// WriteOptions configures the configuration to write.
type WriteOptions struct {
	Listen   string // of the gateway
	Upstream string // with credentials, if needed
	Base     string // prefix of the names of dictionary files

	Zstd string // implementation for the gateway; auto: any

	// Auto leaves dictionaries to the gateways, which train their own from their traffic.
	Auto bool
}

// A DictionaryFile is written next to a configuration that names it.
type DictionaryFile struct {
	Name string
	Dict *codec.Dict
}

// ErrMixed reports that no single gateway can serve what was measured.
var ErrMixed = errors.New("messages of gRPC and of MongoDB were measured: each protocol needs its own gateway")

// Config returns a configuration for the report's recommendations, as text, and the dictionaries that it
// needs. It was checked like 'cinch config check' does.
func (r *Report) Config(o WriteOptions) ([]byte, []DictionaryFile, error) {
	if r.mixed {
		return nil, nil, ErrMixed
	}
	w := &writer{r: r, o: o, names: make(map[string]bool)}
	w.rules()
	text := w.text()
	if _, err := config.Parse(o.Base+".yaml", []byte(text), nil); err != nil {
		return nil, nil, fmt.Errorf("the planned configuration is invalid: %w", err)
	}
	return []byte(text), append(w.files, w.extra...), nil
}

type writer struct {
	r      *Report
	o      WriteOptions
	names  map[string]bool
	list   []string
	active int // rules that are not comments
	files  []DictionaryFile
	extra  []DictionaryFile // of rules that are comments
}

// rules writes the rules in the order of evaluation: those with more literal text first, as others may match
// their keys, too.
func (w *writer) rules() {
	groups := slices.Clone(w.r.Groups)
	slices.SortStableFunc(groups, func(a, b *GroupPlan) int {
		return cmp.Compare(literal(b.Pattern), literal(a.Pattern))
	})
	for i, g := range groups {
		if o := g.Foreign.suggested(); o != nil {
			w.suggest(g, o)
		}
		if o := g.Chosen(); o != nil {
			w.rule(g, o)
		} else if g.Not == "" && (w.r.Protocol == config.Tarantool || covered(g, groups[i+1:])) { // a space's format may ask for compression
			w.rule(g, nil)
		}
	}
}

// covered reports whether a later rule would compress the group, which is to be left alone.
func covered(g *GroupPlan, later []*GroupPlan) bool {
	name := []byte(strings.ReplaceAll(g.Pattern, variable, "0"))
	return slices.ContainsFunc(later, func(l *GroupPlan) bool {
		p := policy.Compile(l.Pattern)
		return l.Chosen() != nil && l.Type == g.Type && l.Space == g.Space && p.Match(name)
	})
}

func (w *writer) rule(g *GroupPlan, o *Option) {
	full := g.Pattern
	switch w.r.Protocol {
	case config.Tarantool:
		full = g.Space + "." + g.Pattern
	case config.Mongo:
		full += "-" + g.Type
	}
	name := w.name(full)
	w.active++
	if o == nil {
		why := fmt.Sprintf("      # %s: %s\n", map[bool]string{true: "left alone", false: notMeasured}[g.Not == ""], g.Why)
		w.list = append(w.list, why+w.lines(name, g, "raw", ""))
		return
	}
	about := fmt.Sprintf("      # %s of %s, about %s after (%s); %s\n", Count(g.Values), terminal.Size(g.Now), terminal.Size(o.After), saves(g.Now, o.After), g.Why)
	d, file := w.dictionary(name, g, o)
	w.files = append(w.files, file...)
	w.list = append(w.list, about+w.lines(name, g, o.candidate.Setting.String(), d))
}

// suggest writes the rule for the content of a group's values, as a comment before the group's own.
func (w *writer) suggest(g *GroupPlan, o *Option) {
	x := g.Foreign
	name := w.name(g.Pattern + "-" + x.Rule)
	d, file := w.dictionary(name, x.Resealed, o)
	w.extra = append(w.extra, file...)
	rule := w.lines(name, g, o.candidate.Setting.String(), d) + "        format: " + x.Rule + "\n"
	about := fmt.Sprintf("      # %s of %s, compressed %s: about %s when re-sealed (%s).\n", Count(g.Values), terminal.Size(g.Now), x.writer(), terminal.Size(o.After), saves(g.Now, o.After)) +
		"      # If a client's library writes them in this format, remove the #, and then run " + x.packing() + ":\n"
	w.list = append(w.list, about+comment(rule))
}

// comment puts a # before lines, after their common indentation.
func comment(lines string) string {
	const indent = "      "
	return indent + "# " + strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(lines, indent), "\n"), "\n"+indent, "\n"+indent+"# ") + "\n"
}

// lines returns a rule as text.
func (w *writer) lines(name string, g *GroupPlan, setting, dictionary string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "      - name: %s\n", name)
	w.address(&b, g)
	fmt.Fprintf(&b, "        setting: %s\n", setting)
	if dictionary != "" {
		fmt.Fprintf(&b, "        dictionary: %s\n", dictionary)
	}
	return b.String()
}

// dictionary returns a rule's dictionary, or "" for none, and its file if there is one.
func (w *writer) dictionary(name string, g *GroupPlan, o *Option) (string, []DictionaryFile) {
	switch {
	case !o.candidate.Dictionary || w.r.Protocol == config.Mongo: // rules for MongoDB have none
		return "", nil
	case w.o.Auto:
		return "auto", nil
	}
	return name, []DictionaryFile{{name, g.Trained}}
}

func (w *writer) address(b *strings.Builder, g *GroupPlan) {
	switch w.r.Protocol {
	case config.GRPC:
		service, method, _ := strings.Cut(strings.TrimPrefix(g.Pattern, "/"), "/")
		fmt.Fprintf(b, "        service: %q\n        method: [%q]\n", service, method)
		if g.Type != "" {
			fmt.Fprintf(b, "        direction: [%s]\n", g.Type)
		}
		return
	case config.HTTP:
		method, _, _ := strings.Cut(g.Type, " ")
		fmt.Fprintf(b, "        path: %q\n        method: [%q]\n", g.Pattern, method)
		return
	case config.Mongo:
		command, direction, _ := strings.Cut(g.Type, " ")
		fmt.Fprintf(b, "        namespace: %q\n        command: [%q]\n", g.Pattern, escapeGlob(command))
		if direction != "" {
			fmt.Fprintf(b, "        direction: [%s]\n", direction)
		}
		return
	case config.Tarantool:
		fmt.Fprintf(b, "        space: %q\n        field: %q\n", escapeGlob(g.Space), g.Pattern)
		return
	case config.Redis:
		fmt.Fprintf(b, "        key: %q\n", g.Pattern)
		fmt.Fprintf(b, "        type: [%s]\n", g.Type)
		if g.Space != "" && w.spaces() > 1 {
			fmt.Fprintf(b, "        db: %s\n", g.Space)
		}
		return
	}
	fmt.Fprintf(b, "        key: %q # a guess: replace it with the keys of these values\n", guessKey(g.Pattern))
}

func (w *writer) spaces() int {
	seen := map[string]bool{"0": true}
	for _, g := range w.r.Groups {
		seen[g.Space] = true
	}
	return len(seen)
}

// guessKey derives a key pattern from a file name: orders-*.jsonl is order data.
func guessKey(pattern string) string {
	stem, _, _ := strings.Cut(pattern, " ")
	if i := strings.LastIndexByte(stem, '/'); i >= 0 {
		stem = stem[i+1:]
	}
	end := strings.IndexAny(stem, "*.-_:")
	if end > 0 {
		stem = stem[:end]
	}
	if stem == "" || end == 0 {
		return variable
	}
	return escapeGlob(stem) + ":*"
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// name derives a rule's name from a pattern.
func (w *writer) name(pattern string) string {
	base := strings.Trim(unfit.ReplaceAllString(pattern, "-"), "-_.")
	base = cmp.Or(strings.Trim(base[:min(len(base), 40)], "-_."), "values")
	if base == "auto" {
		base = "auto-values"
	}
	name := base
	for i := 2; w.names[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	w.names[name] = true
	return name
}

// configSchema is the URL of the configuration's schema for editors; docs/config.schema.json.
const configSchema = "https://raw.githubusercontent.com/cinch-layer/cinch/main/docs/config.schema.json"

func (w *writer) text() string {
	var b strings.Builder
	r := w.r
	b.WriteString("# yaml-language-server: $schema=" + configSchema + "\n")
	fmt.Fprintf(&b, "# Written by cinch plan on %s from %s.\n", r.MadeAt.Format("2006-01-02"), clip(r.Source, 200))
	fmt.Fprintf(&b, "# Expected: %s instead of %s (give or take %s), %s instead of %s a month.\n",
		terminal.Size(r.After), terminal.Size(r.Now), terminal.Size(r.Margin), terminal.Dollars(r.BillAfter.Total()), terminal.Dollars(r.BillNow.Total()))
	if w.o.Zstd == "go" || w.o.Zstd == "libzstd" {
		fmt.Fprintf(&b, "zstd: %s\n", w.o.Zstd)
	}
	w.dictionaries(&b)
	pairs := slices.ContainsFunc(r.Groups, func(g *GroupPlan) bool { return g.Choice >= 0 && g.Chosen().candidate.encoding == encodingPair })
	if pairs {
		fmt.Fprint(&b, pairHint(r.Protocol))
	}
	protocol := cmp.Or(r.Protocol, config.Redis)
	fmt.Fprintf(&b, "gateways:\n  - name: %s\n    protocol: %s\n    listen: %q\n    upstream: %q\n",
		protocol, protocol, w.o.Listen, w.o.Upstream)
	if pairs && (protocol == config.HTTP || protocol == config.GRPC) {
		b.WriteString("    link: {history: client}\n")
	}
	switch {
	case len(w.list) == 0:
		fmt.Fprintf(&b, "    rules: [] # leave everything alone\n")
	case w.active == 0:
		fmt.Fprintf(&b, "    rules: # none: leave everything alone\n")
	default:
		fmt.Fprintf(&b, "    rules:\n")
	}
	b.WriteString(strings.Join(w.list, ""))
	for _, g := range r.Groups {
		if g.Not != "" {
			fmt.Fprintf(&b, "    # not measured: %s, %s of %s: %s\n", clip(g.label(), 200), Count(g.Values), terminal.Size(g.Now), g.Why)
		}
	}
	for _, line := range r.GoOn {
		fmt.Fprintf(&b, "    # %s\n", clip(line, 300))
	}
	return b.String()
}

// pairHint describes the setup of the other one of two gateways.
func pairHint(protocol string) string {
	switch protocol {
	case config.HTTP:
		return "# This is the gateway beside the clients. The other one, beside the server, is the upstream here, and has 'peers: true'\n# (docs/HTTP.md, Two gateways).\n"
	case config.GRPC:
		return "# This is the gateway beside the clients. The other one, beside the server, is the upstream here, and has 'peers: true'\n# (docs/GRPC.md, A link between two gateways).\n"
	}
	return "# This is the gateway beside the application. The other one, beside the server, is the upstream here, and has\n# 'peers: true' (docs/MONGODB.md, A gateway at each end).\n"
}

// dictionaries lists the files; those of rules that are comments become comments.
func (w *writer) dictionaries(b *strings.Builder) {
	if len(w.files)+len(w.extra) == 0 {
		return
	}
	b.WriteString("# The dictionaries hold pieces of your values: protect their files as you protect those.\n")
	if len(w.files) == 0 {
		b.WriteString("# ")
	}
	b.WriteString("dictionaries:\n")
	for i, f := range append(slices.Clone(w.files), w.extra...) {
		mark := "- "
		if i >= len(w.files) {
			mark = "# - "
		}
		fmt.Fprintf(b, "  %s{name: %s, file: %q}\n", mark, f.Name, f.FileName(w.o.Base))
	}
}

// FileName returns the name of the dictionary's file, next to the configuration.
func (f DictionaryFile) FileName(base string) string { return base + "-" + f.Name + ".dict" }
