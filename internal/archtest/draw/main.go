// Command draw prints the rooms of the product, which are the folders directly under internal/, and what they import:
//
//	go run ./internal/archtest/draw
//
// Each room stands on the lowest floor above all that it imports. Lines are those of Go files without tests.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// room is a folder under internal/, or envelope, codec or cmd.
type room struct {
	name            string
	packages, lines int
	imports         map[string]bool
}

func main() {
	rooms, err := load()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	names := slices.Sorted(maps.Keys(rooms))
	floors := map[string]int{}
	for _, name := range names {
		floorOf(rooms, floors, name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return floors[b] - floors[a] })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "floor\troom\tpackages\tlines\timports")
	arrows := 0
	for _, name := range names {
		r := rooms[name]
		below := slices.SortedFunc(maps.Keys(r.imports), func(a, b string) int {
			if d := floors[b] - floors[a]; d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		arrows += len(below)
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\n", floors[name], name, r.packages, r.lines, strings.Join(below, " "))
	}
	_ = w.Flush()
	fmt.Printf("%d rooms, %d arrows\n", len(names), arrows)
}

// load returns the rooms of the module in the current directory, and codec.
func load() (map[string]*room, error) {
	list := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Module", "./...", "./codec/...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	rooms := map[string]*room{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return rooms, nil
		} else if err != nil {
			return nil, err
		}
		name := roomOf(p.ImportPath)
		if name == "" {
			continue
		}
		r := rooms[name]
		if r == nil {
			r = &room{name: name, imports: map[string]bool{}}
			rooms[name] = r
		}
		r.packages++
		for _, f := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			r.lines += bytes.Count(text, []byte("\n"))
		}
		for _, imported := range p.Imports {
			if below := roomOf(imported); below != "" && below != name {
				r.imports[below] = true
			}
		}
	}
}

// roomOf returns the room of a package, "" for the standard library, other modules, tests and the like.
func roomOf(path string) string {
	const module = "github.com/cinch-layer/cinch"
	if path == module {
		return "envelope" // the envelope's package before it had a folder
	}
	rest, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return ""
	}
	parts := strings.Split(rest, "/")
	switch {
	case parts[0] == "internal" && parts[1] != "archtest" && parts[1] != "arrows":
		return parts[1]
	case parts[0] == "envelope", parts[0] == "codec", parts[0] == "cmd":
		return parts[0]
	}
	return ""
}

// floorOf returns the floor of a room: one above the highest that it imports. Rooms that import each other are on
// one floor.
func floorOf(rooms map[string]*room, floors map[string]int, name string) int {
	if f, known := floors[name]; known {
		return f
	}
	floors[name] = 0 // ends the recursion if rooms import each other
	f := 0
	for below := range rooms[name].imports {
		f = max(f, floorOf(rooms, floors, below)+1)
	}
	floors[name] = f
	return f
}
