package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// A base backup does not copy libraries and extensions, which packages install on each machine. A server that
// lacks one starts, follows and serves most queries, and fails at the first one that needs it. So the check
// looks for the files before the copy, and a gate loads them before the new node takes over.

// firstMade is the lowest OID that initdb has not assigned. Libraries of functions below it come with
// PostgreSQL.
const firstMade uint32 = 16384

// preloads lists the settings that name libraries.
var preloads = []string{"shared_preload_libraries", "session_preload_libraries", "local_preload_libraries", "archive_library"}

// librariesHint is the hint for missing libraries and extensions.
const librariesHint = "install there the packages of extensions that %s has"

// missingFiles returns the files that the new machine lacks and the old one has. Without pg_config they are
// unknown before the copy, and the gate finds them.
func (t *task) missingFiles(ctx context.Context) ([]string, error) {
	files, err := t.files(ctx)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	there, err := lacks(ctx, t.newNode, files)
	if err != nil || len(there) == 0 {
		return nil, context.Cause(ctx)
	}
	here, err := lacks(ctx, t.oldNode, files)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	return slices.DeleteFunc(there, func(file string) bool { return slices.Contains(here, file) }), nil
}

// files returns the files of libraries and extensions that the primary's databases and settings name.
func (t *task) files(ctx context.Context) (files []string, err error) {
	databases, err := databases(ctx, t.primary)
	if err != nil {
		return nil, err
	}
	for _, database := range databases {
		c, err := t.primary.connect(ctx, database)
		if err != nil {
			return nil, err
		}
		names, extensions, err := uses(ctx, c)
		_ = c.Close(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			files = append(files, libraryFile(name))
		}
		for _, name := range extensions {
			files = append(files, name+".control")
		}
	}
	settings, err := preloaded(ctx, t.primary)
	if err != nil {
		return nil, err
	}
	for _, list := range settings {
		for _, name := range list {
			files = append(files, libraryFile(name))
		}
	}
	slices.Sort(files)
	return slices.DeleteFunc(slices.Compact(files), func(file string) bool { return file == "" }), nil
}

// libraryFile returns the file of a library in PostgreSQL's library directory, or "" if it is elsewhere.
func libraryFile(name string) string {
	name = strings.TrimPrefix(name, "$libdir/")
	if strings.Contains(name, "/") {
		return ""
	}
	return strings.TrimSuffix(name, ".so") + ".so"
}

// uses returns the libraries of the functions of a database, and its extensions.
func uses(ctx context.Context, c *pgx.Conn) (libraries, extensions []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err = c.QueryRow(ctx, `SELECT (SELECT coalesce(array_agg(DISTINCT probin ORDER BY probin), '{}') FROM pg_proc WHERE probin IS NOT NULL AND oid >= $1),
		(SELECT coalesce(array_agg(extname::text ORDER BY extname), '{}') FROM pg_extension)`, firstMade).Scan(&libraries, &extensions)
	return libraries, extensions, err
}

// preloaded returns the libraries that each of preloads names.
func preloaded(ctx context.Context, n *Node) (map[string][]string, error) {
	values, err := value[[]string](ctx, n, "SELECT array_agg(coalesce(current_setting(name, true), '') ORDER BY place) FROM unnest($1::text[]) WITH ORDINALITY AS s (name, place)", preloads)
	if err != nil {
		return nil, err
	}
	lists := map[string][]string{}
	for i, setting := range preloads {
		for name := range strings.SplitSeq(values[i], ",") {
			if name = strings.Trim(strings.TrimSpace(name), `"`); name != "" {
				lists[setting] = append(lists[setting], name)
			}
		}
	}
	return lists, nil
}

// lacks returns the files that a node's machine does not have in the directories of its pg_config. A
// pg_config of another version of PostgreSQL is an error.
func lacks(ctx context.Context, n *Node, files []string) ([]string, error) {
	script := `is=$("$1" --version) && of=$("$2" --version) && [ "${is#PostgreSQL }" = "${of#postgres (PostgreSQL) }" ] || exit 1
		lib=$("$1" --pkglibdir) && share=$("$1" --sharedir) || exit 1; shift 2
		for one; do case $one in *.control) file=$share/extension/$one;; *) file=$lib/$one;; esac; [ -e "$file" ] || echo "$one"; done`
	out, err := n.quickCommand(ctx, "sh", append([]string{"-c", script, "sh", n.program("pg_config"), n.program("postgres")}, files...)...)
	return strings.Fields(out), err
}

// samePreloads returns an error if the new node does not preload the libraries that the primary does. Settings in the
// new node's options may differ.
func (p preparation) samePreloads(ctx context.Context) error {
	was, err := preloaded(ctx, p.primary)
	if err != nil {
		return err
	}
	is, err := preloaded(ctx, p.newNode)
	if err != nil {
		return err
	}
	for _, setting := range preloads {
		if _, meant := p.newNode.Options[setting]; meant {
			continue
		}
		if lacks := slices.DeleteFunc(was[setting], func(name string) bool { return slices.Contains(is[setting], name) }); len(lacks) > 0 {
			return terminal.WithHint(fmt.Errorf("%w: %s of %s lacks %s, which %s has", ErrGate, setting, p.newNode.Name, strings.Join(lacks, ", "), p.primary.Name),
				"set it there; if it is intended, set it in options: of %s", p.newNode.Name)
		}
	}
	return p.loads(ctx, "", is["archive_library"]) // a standby does not load it by itself
}

// findsLibraries returns an error unless the new node can load the libraries of a database's functions, and has the
// files of its extensions.
func (p preparation) findsLibraries(ctx context.Context, database string, standby *pgx.Conn) error {
	names, _, err := uses(ctx, standby)
	if err == nil {
		err = p.loads(ctx, database, names)
	}
	if err != nil {
		return err
	}
	missing, err := missingExtensions(ctx, standby)
	if err != nil || len(missing) == 0 {
		return err
	}
	primary, err := p.primary.connect(ctx, database)
	if err != nil {
		return err
	}
	defer primary.Close(context.WithoutCancel(ctx))
	here, err := missingExtensions(ctx, primary)
	missing = slices.DeleteFunc(missing, func(name string) bool { return slices.Contains(here, name) })
	if err == nil && len(missing) > 0 {
		err = terminal.WithHint(fmt.Errorf("%w: the machine of %s does not have the extensions %s", ErrGate, p.newNode.Name, strings.Join(missing, ", ")), librariesHint, p.primary.Name)
	}
	return err
}

// loads returns an error if the new node can't load a library that the primary can load.
func (p preparation) loads(ctx context.Context, database string, names []string) error {
	failed, err := load(ctx, p.newNode, database, names)
	if err != nil || len(failed) == 0 {
		return err
	}
	also, err := load(ctx, p.primary, database, sortedNames(failed))
	if err != nil {
		return err
	}
	for _, name := range sortedNames(failed) {
		if also[name] == nil {
			return terminal.WithHint(fmt.Errorf("%w: %s can't load %s, which %s can: %w", ErrGate, p.newNode.Name, name, p.primary.Name, failed[name]), librariesHint, p.primary.Name)
		}
	}
	return nil
}

// load makes a server load libraries in a separate session, and returns the errors of those that it can't load. If a
// library ends the session, the rest is loaded in a new one.
func load(ctx context.Context, n *Node, database string, names []string) (map[string]error, error) {
	failed := map[string]error{}
	for len(names) > 0 {
		c, err := n.connect(ctx, database)
		if err != nil {
			return nil, err
		}
		for len(names) > 0 && !c.IsClosed() {
			if err := loadOne(ctx, c, names[0]); refusesLibrary(err) {
				failed[names[0]] = err
			} else if err != nil { // the server is shutting down, or the network is down
				_ = c.Close(context.WithoutCancel(ctx))
				return nil, fmt.Errorf("node %s: LOAD %s: %w", n.Name, names[0], err)
			}
			names = names[1:]
		}
		_ = c.Close(context.WithoutCancel(ctx))
	}
	return failed, nil
}

func loadOne(ctx context.Context, c *pgx.Conn, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.Exec(ctx, "LOAD "+literal(name))
	return err
}

// refusesLibrary reports whether err means that a server can't load a library. It does not if the server is about to
// end (57P), as when another of its processes has crashed.
func refusesLibrary(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && !strings.HasPrefix(said.Code, "57P")
}

func sortedNames(failed map[string]error) []string {
	return slices.Sorted(maps.Keys(failed))
}

// missingExtensions returns the extensions of a database whose files the machine lacks: they work, but can't
// be dumped, restored or updated.
func missingExtensions(ctx context.Context, c *pgx.Conn) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	rows, _ := c.Query(ctx, "SELECT extname::text FROM pg_extension WHERE NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = extname) ORDER BY 1")
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func databases(ctx context.Context, n *Node) (names []string, err error) {
	err = n.ask(ctx, func(c *pgx.Conn) error {
		rows, _ := c.Query(ctx, "SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1")
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}
