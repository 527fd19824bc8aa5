package remotewrite

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Modules and paths of the texts.
const (
	nodeExporter = "github.com/prometheus/node_exporter@v1.12.1"
	nodeText     = "collector/fixtures/e2e-output.txt"
	prometheus   = "github.com/prometheus/prometheus@v0.316.0"
	serverText   = "model/textparse/testdata/alltypes.237mfs.nometa.prom.txt"
	labelSets    = "tsdb/testdata/20kseries.json"
	cadvisor     = "github.com/google/cadvisor@v0.36.0"
	cadvisorText = "metrics/testdata/prometheus_metrics"
)

// Corpus holds the series and label sets that requests are made of.
type Corpus struct {
	node      []Series // a scrape of node_exporter
	server    []Series // of a Prometheus server, which stands for any large Go program
	container []Series // of cAdvisor, with one container
	sets      [][]Label
}

// Load downloads the modules if they are not in the go command's cache.
func Load(ctx context.Context) (*Corpus, error) {
	var c Corpus
	for _, text := range []struct {
		module, path string
		to           *[]Series
	}{
		{nodeExporter, nodeText, &c.node},
		{prometheus, serverText, &c.server},
		{cadvisor, cadvisorText, &c.container},
	} {
		data, err := readFrom(ctx, text.module, text.path)
		if err != nil {
			return nil, err
		}
		if *text.to, err = parseText(data); err != nil {
			return nil, fmt.Errorf("%s: %w", text.path, err)
		}
	}
	data, err := readFrom(ctx, prometheus, labelSets)
	if err != nil {
		return nil, err
	}
	c.sets, err = parseSets(data)
	return &c, err
}

func readFrom(ctx context.Context, module, path string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // outside of any module
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil {
		return nil, fmt.Errorf("go mod download %s: %w", module, errors.Join(err, jsonErr))
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("go mod download %s: %s", module, answer.Error)
	}
	return os.ReadFile(filepath.Join(answer.Dir, filepath.FromSlash(path)))
}

// parseText reads Prometheus's text format. It ignores timestamps, since servers set their own.
func parseText(data []byte) ([]Series, error) {
	var all []Series
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, errors.New("no series")
	}
	return all, nil
}

func parseLine(line string) (s Series, err error) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return s, errors.New("no value")
	}
	s.Labels = []Label{{"__name__", line[:end]}}
	rest := line[end:]
	if rest[0] == '{' {
		if s.Labels, rest, err = parseLabels(s.Labels, rest[1:]); err != nil {
			return s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, errors.New("no value")
	}
	s.Value, err = strconv.ParseFloat(fields[0], 64)
	return s, err
}

func parseLabels(labels []Label, rest string) ([]Label, string, error) {
	for {
		rest = strings.TrimLeft(rest, ", ")
		if strings.HasPrefix(rest, "}") {
			return labels, rest[1:], nil
		}
		name, quoted, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, "", errors.New("unfinished labels")
		}
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return nil, "", err
		}
		value, err := strconv.Unquote(prefix)
		if err != nil {
			return nil, "", err
		}
		labels = append(labels, Label{name, value})
		rest = quoted[len(prefix):]
	}
}

// parseSets reads one JSON object per line and shuffles the label sets.
func parseSets(data []byte) ([][]Label, error) {
	var sets [][]Label
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var object map[string]string
		if err := d.Decode(&object); err != nil {
			return nil, err
		}
		var labels []Label
		for name, value := range object {
			labels = append(labels, Label{name, value})
		}
		sortLabels(labels)
		sets = append(sets, labels)
	}
	if len(sets) == 0 {
		return nil, errors.New("no label sets")
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
	return sets, nil
}
