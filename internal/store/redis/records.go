package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Records are small texts beside the dictionaries, by which gateways coordinate their dictionaries. A record
// is replaced only by a writer that has seen its last version.
//
// On a server with functions every version is a library of its own, so that the server
// itself, which loads no library twice, lets only one of two writers succeed:
//
//	library   cinch_rule_<name>_<version>     the version in 16 hexadecimal digits
//	function  of the same name                its description is the text
//
// The highest version counts. Earlier ones are deleted. Other servers hold a key, which
// is replaced in a transaction:
//
//	key       cinch:dict:rule:<name>          "<version> <text>"

const (
	recordPrefix    = "cinch_rule_"
	recordKeyPrefix = keyPrefix + "rule:"
	maxRecordName   = 64
)

const recordSource = `#!lua name=%[1]s
-- What the Cinch gateways of this server tell each other about a rule's dictionaries.
redis.register_function{
  function_name = '%[1]s',
  description = %[2]s,
  flags = {'no-writes'},
  callback = function() return 0 end,
}
`

// records stores and reads records in a server.
type records struct {
	functions functions
	keys      keys
}

// Record returns the text stored under a name (letters, digits and _) and its version; "" and 0 if there is
// none.
func (r records) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	if err := checkRecordName(name); err != nil {
		return "", 0, err
	}
	versions, err := r.functions.versions(ctx, name)
	if errors.Is(err, errNoFunctions) {
		return r.keys.record(ctx, r.keys.client, name)
	}
	if err != nil {
		return "", 0, fmt.Errorf("record %s: %w", name, err)
	}
	last := latest(versions)[name]
	return last.text, last.version, nil
}

// ReplaceRecord stores a new text under a name and returns its version, or 0 if the given version is no
// longer the current one. The text must be UTF-8.
func (r records) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	if err := checkRecordName(name); err != nil {
		return 0, err
	}
	next, err = r.functions.replaceRecord(ctx, name, version, text)
	if errors.Is(err, errNoFunctions) {
		next, err = r.keys.replaceRecord(ctx, name, version, text)
	}
	if err != nil {
		return 0, fmt.Errorf("record %s: %w", name, err)
	}
	return next, nil
}

// Records returns the texts of all records by name.
func (r records) Records(ctx context.Context) (map[string]string, error) {
	texts := map[string]string{}
	versions, err := r.functions.records(ctx, recordPrefix+"*")
	if errors.Is(err, errNoFunctions) {
		return texts, r.keys.records(ctx, texts)
	}
	for name, last := range latest(versions) {
		texts[name] = last.text
	}
	return texts, err
}

// DeleteRecord removes a record unless its version has changed. It reports whether it did.
func (r records) DeleteRecord(ctx context.Context, name string, version uint64) (deleted bool, err error) {
	if err := checkRecordName(name); err != nil {
		return false, err
	}
	deleted, err = r.functions.deleteRecord(ctx, name, version)
	if errors.Is(err, errNoFunctions) {
		deleted, err = r.keys.deleteRecord(ctx, name, version)
	}
	if err != nil {
		return false, fmt.Errorf("record %s: %w", name, err)
	}
	return deleted, nil
}

func checkRecordName(name string) error {
	bad := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_'
	}
	if name == "" || len(name) > maxRecordName || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%w: a record can't be named %q", errClient, name)
	}
	return nil
}

// recordVersion is one version of a record.
type recordVersion struct {
	library string
	name    string
	version uint64
	text    string
}

func latest(all []recordVersion) map[string]recordVersion {
	last := map[string]recordVersion{}
	for _, r := range all {
		if r.version > last[r.name].version {
			last[r.name] = r
		}
	}
	return last
}

func recordLibrary(name string, version uint64) string {
	return fmt.Sprintf("%s%s_%016x", recordPrefix, name, version)
}

// parseRecordLibrary splits a library's name into the record's name and version.
func parseRecordLibrary(library string) (name string, version uint64, ok bool) {
	rest, ok := strings.CutPrefix(library, recordPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 || len(rest)-i-1 != 16 {
		return "", 0, false
	}
	version, err := strconv.ParseUint(rest[i+1:], 16, 64)
	return rest[:i], version, err == nil
}

func (f functions) records(ctx context.Context, pattern string) ([]recordVersion, error) {
	libraries, err := f.list(ctx, pattern, false)
	if err != nil {
		return nil, err
	}
	var all []recordVersion
	for _, l := range libraries {
		name, version, ok := parseRecordLibrary(l.Name)
		if ok && len(l.Functions) == 1 {
			all = append(all, recordVersion{l.Name, name, version, l.Functions[0].Description})
		}
	}
	return all, nil
}

// versions returns the versions of one record. The pattern also matches other names that begin alike.
func (f functions) versions(ctx context.Context, name string) ([]recordVersion, error) {
	all, err := f.records(ctx, recordPrefix+name+"_*")
	return slices.DeleteFunc(all, func(r recordVersion) bool { return r.name != name }), err
}

// replaceRecord loads the next version. A writer that is too late finds that version there already, or finds
// on reading back that a later one exists.
func (f functions) replaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	before, err := f.versions(ctx, name)
	if err != nil || latest(before)[name].version != version {
		return 0, err
	}
	next = version + 1
	library := recordLibrary(name, next)
	err = f.client.FunctionLoad(ctx, fmt.Sprintf(recordSource, library, luaString(text))).Err()
	if isTaken(err) {
		return 0, nil
	}
	if err != nil {
		return 0, classify(err)
	}
	after, err := f.versions(ctx, name)
	if last := latest(after)[name]; err != nil || last.version != next || last.text != text {
		return 0, err
	}
	return next, f.deleteRecords(ctx, after, next)
}

// deleteRecords removes all versions before one. Those that the user may not delete stay, which costs only
// their size.
func (f functions) deleteRecords(ctx context.Context, all []recordVersion, before uint64) error {
	for _, r := range all {
		if r.version >= before {
			continue
		}
		if err := f.client.FunctionDelete(ctx, r.library).Err(); err != nil && !isAnswer(err) {
			return err
		}
	}
	return nil
}

// deleteRecord deletes the versions found. A later version that is loaded meanwhile has another name and
// stays.
func (f functions) deleteRecord(ctx context.Context, name string, version uint64) (bool, error) {
	all, err := f.versions(ctx, name)
	if err != nil || len(all) == 0 || latest(all)[name].version != version {
		return false, err
	}
	for _, r := range all {
		if err := f.client.FunctionDelete(ctx, r.library).Err(); err != nil {
			return false, classify(err)
		}
	}
	return true, nil
}

// luaString quotes text as a Lua string.
func luaString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%03d`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// getter is a client, or a transaction that watches.
type getter interface {
	Get(ctx context.Context, key string) *goredis.StringCmd
}

func (k keys) record(ctx context.Context, from getter, name string) (text string, version uint64, err error) {
	if err := k.checkDatabase(); err != nil {
		return "", 0, err
	}
	stored, err := from.Get(ctx, recordKeyPrefix+name).Result()
	if errors.Is(err, goredis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, classify(err)
	}
	digits, text, _ := strings.Cut(stored, " ")
	if version, err = strconv.ParseUint(digits, 10, 64); err != nil || version == 0 {
		return "", 0, fmt.Errorf("%w: no version before the text", ErrForeign)
	}
	return text, version, nil
}

// replaceRecord returns ErrEvictable where dictionaries are refused too: without them records are of no use.
func (k keys) replaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	if err := k.evictionPolicy(ctx); errors.Is(err, ErrEvictable) {
		return 0, err
	}
	done, err := k.ifStill(ctx, name, version, func(p goredis.Pipeliner) {
		p.Set(ctx, recordKeyPrefix+name, strconv.FormatUint(version+1, 10)+" "+text, 0)
	})
	if !done {
		return 0, err
	}
	return version + 1, nil
}

func (k keys) deleteRecord(ctx context.Context, name string, version uint64) (bool, error) {
	return k.ifStill(ctx, name, version, func(p goredis.Pipeliner) { p.Del(ctx, recordKeyPrefix+name) })
}

// ifStill calls do if the record has the given version, and reports whether it did.
func (k keys) ifStill(ctx context.Context, name string, version uint64, do func(goredis.Pipeliner)) (done bool, err error) {
	err = k.client.Watch(ctx, func(tx *goredis.Tx) error {
		_, now, err := k.record(ctx, tx, name)
		if err != nil || now != version {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { do(p); return nil })
		done = err == nil
		return err
	}, recordKeyPrefix+name)
	if errors.Is(err, goredis.TxFailedErr) {
		return false, nil
	}
	return done, classify(err)
}

func (k keys) records(ctx context.Context, texts map[string]string) error {
	it := k.client.Scan(ctx, 0, recordKeyPrefix+"*", 1000).Iterator()
	for it.Next(ctx) {
		name := strings.TrimPrefix(it.Val(), recordKeyPrefix)
		text, version, err := k.record(ctx, k.client, name)
		if err != nil && !errors.Is(err, ErrForeign) {
			return err
		}
		if version > 0 {
			texts[name] = text
		}
	}
	return classify(it.Err())
}
