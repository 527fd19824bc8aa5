package mongo

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/mask"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// redaction replaces the values in a command. It fails for parts in which values can't be told from other
// things.
type redaction struct {
	key    *mask.Key
	depth  int
	failed bool
}

// treatment redacts an element of a command.
type treatment func(r *redaction, v bsoncore.Value) bsoncore.Value

// treatments by class and element; other elements make a redaction fail.
var treatments = map[class]map[string]treatment{
	find: {
		"filter": (*redaction).filterOf, "projection": (*redaction).paths, "sort": (*redaction).names, "hint": (*redaction).names, "limit": keep, "skip": keep,
		"batchSize": keep, "singleBatch": keep, "noCursorTimeout": keep, "allowDiskUse": keep, "returnKey": keep, "showRecordId": keep,
		"allowPartialResults": keep, "min": (*redaction).value, "max": (*redaction).value,
	},
	count:    {"query": (*redaction).filterOf, "limit": keep, "skip": keep, "hint": (*redaction).names, "fields": (*redaction).paths},
	distinct: {"query": (*redaction).filterOf, "key": keep},
	getMore:  {"collection": keep, "batchSize": keep},
	killCursors: {
		"cursors": keep,
	},
	insert: {"documents": (*redaction).value},
	update: {"updates": eachOf(map[string]treatment{
		"q": (*redaction).filterOf, "u": (*redaction).update, "arrayFilters": (*redaction).filters, "multi": keep, "upsert": keep, "collation": keep, "hint": (*redaction).names,
	})},
	remove: {"deletes": eachOf(map[string]treatment{"q": (*redaction).filterOf, "limit": keep, "collation": keep, "hint": (*redaction).names})},
	findAndModify: {
		"query": (*redaction).filterOf, "update": (*redaction).update, "arrayFilters": (*redaction).filters, "sort": (*redaction).names, "fields": (*redaction).paths,
		"hint": (*redaction).names, "new": keep, "remove": keep, "upsert": keep,
	},
	aggregate: {"pipeline": (*redaction).stages, "cursor": keep, "allowDiskUse": keep, "hint": (*redaction).names},
	define: {
		"capped": keep, "size": keep, "max": keep, "autoIndexId": keep, "expireAfterSeconds": keep, "clusteredIndex": keep,
		"index": keep, "indexes": keep, "commitQuorum": keep,
	},
}

// ofAll holds the treatments of elements that any command may have.
var ofAll = map[string]treatment{
	"$db": keep, "lsid": keep, "txnNumber": keep, "autocommit": keep, "startTransaction": keep, "$clusterTime": keep, "$readPreference": keep, "readConcern": keep,
	"writeConcern": keep, "maxTimeMS": keep, "stmtId": keep, "stmtIds": keep, "apiVersion": keep, "apiStrict": keep, "apiDeprecationErrors": keep, "ordered": keep,
	"bypassDocumentValidation": keep, "collation": keep,
}

// recordedRequest is a command with redacted values, as it is recorded.
type recordedRequest struct {
	body     []byte
	sections []section
}

// request redacts a command.
func (r *redaction) request(q *request, m message) (out recordedRequest) {
	first := true
	out.body = rebuild(m.body, func(key string, v bsoncore.Value) (bsoncore.Value, bool) {
		if first || key == "comment" {
			first = false
			return v, key != "comment"
		}
		return r.treat(treatments[q.class], key, v), true
	})
	for _, s := range m.sections {
		var values []bsoncore.Value
		for _, doc := range cut(s.documents) {
			values = append(values, bsoncore.Value{Type: bsoncore.TypeEmbeddedDocument, Data: doc})
		}
		array := bsoncore.Value{Type: bsoncore.TypeArray, Data: bsoncore.BuildArray(nil, values...)}
		var documents []byte
		each(wire.Document(r.treat(treatments[q.class], s.name, array)), func(_ string, v bsoncore.Value) {
			documents = append(documents, v.Data...)
		})
		out.sections = append(out.sections, section{s.name, documents})
	}
	return out
}

func (r *redaction) treat(by map[string]treatment, key string, v bsoncore.Value) bsoncore.Value {
	t := by[key]
	if t == nil {
		t = ofAll[key]
	}
	if t == nil {
		return r.fail(v)
	}
	return t(r, v)
}

func (r *redaction) fail(v bsoncore.Value) bsoncore.Value {
	r.failed = true
	return v
}

func keep(_ *redaction, v bsoncore.Value) bsoncore.Value { return v }

// eachOf treats the elements of each document in an array.
func eachOf(by map[string]treatment) treatment {
	return func(r *redaction, v bsoncore.Value) bsoncore.Value {
		return r.within(v, func(_ string, one bsoncore.Value) bsoncore.Value {
			return r.within(one, func(key string, v bsoncore.Value) bsoncore.Value { return r.treat(by, key, v) })
		})
	}
}

// within changes the elements of a document or an array; it fails for other values.
func (r *redaction) within(v bsoncore.Value, change func(key string, v bsoncore.Value) bsoncore.Value) bsoncore.Value {
	return r.some(v, func(key string, v bsoncore.Value) (bsoncore.Value, bool) { return change(key, v), true })
}

// some is like within, but drops the elements that are not kept.
func (r *redaction) some(v bsoncore.Value, change func(key string, v bsoncore.Value) (made bsoncore.Value, kept bool)) bsoncore.Value {
	doc := wire.Document(v)
	if doc == nil || r.depth > maxDepth {
		return r.fail(v)
	}
	r.depth++
	defer func() { r.depth-- }()
	return bsoncore.Value{Type: v.Type, Data: rebuild(doc, func(key string, v bsoncore.Value) (made bsoncore.Value, kept bool) {
		if !r.failed {
			made, kept = change(key, v)
		}
		return made, kept && !r.failed // after a failure the result is not needed
	})}
}

// rebuild returns a document made of another one's changed elements, without those that are not kept.
func rebuild(doc []byte, change func(key string, v bsoncore.Value) (made bsoncore.Value, kept bool)) []byte {
	out := make([]byte, 4, 64)
	each(doc, func(key string, v bsoncore.Value) {
		if made, kept := change(key, v); kept {
			out = bsoncore.AppendValueElement(out, key, made)
		}
	})
	return wire.FinishDocument(out, 0)
}

// oldBinary is the subtype of the old form of binary values.
const oldBinary = 2

// value redacts a value, and everything in it. Values without user data stay: booleans, nulls, ObjectIDs made
// by drivers.
func (r *redaction) value(v bsoncore.Value) bsoncore.Value {
	out := bsoncore.Value{Type: v.Type}
	switch v.Type {
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value { return r.value(v) })
	case bsoncore.TypeString, bsoncore.TypeJavaScript, bsoncore.TypeSymbol:
		if len(v.Data) < 5 {
			return r.fail(v)
		}
		out.Data = r.key.Text(slices.Clone(v.Data[:4]), v.Data[4:len(v.Data)-1])
		out.Data = append(out.Data, 0)
	case bsoncore.TypeBinary:
		head := 5
		if len(v.Data) < head {
			return r.fail(v)
		}
		if v.Data[4] == oldBinary {
			head = min(9, len(v.Data)) // it contains its length a second time
		}
		out.Data = r.key.Bytes(slices.Clone(v.Data[:head]), v.Data[head:])
	case bsoncore.TypeRegex:
		pattern, options, _ := v.RegexOK()
		out.Data = append(append(append(r.key.Text(nil, []byte(pattern)), 0), options...), 0)
	case bsoncore.TypeCodeWithScope, bsoncore.TypeDBPointer:
		return bsoncore.Value{Type: bsoncore.TypeNull}
	default:
		return r.number(v)
	}
	return out
}

// Bits of a date and of a decimal number that are redacted: dates stay within a period of 35 years, decimals
// keep sign and exponent.
const (
	dateBits    = 40
	decimalBits = 48
)

// number redacts a number or a date.
func (r *redaction) number(v bsoncore.Value) bsoncore.Value {
	out := bsoncore.Value{Type: v.Type, Data: slices.Clone(v.Data)}
	switch v.Type {
	case bsoncore.TypeInt32:
		binary.LittleEndian.PutUint32(out.Data, uint32(r.key.Integer(int64(v.Int32()))))
	case bsoncore.TypeInt64:
		binary.LittleEndian.PutUint64(out.Data, uint64(r.key.Integer(v.Int64())))
	case bsoncore.TypeDouble:
		binary.LittleEndian.PutUint64(out.Data, math.Float64bits(r.key.Float(v.Double())))
	case bsoncore.TypeDateTime:
		binary.LittleEndian.PutUint64(out.Data, r.key.Bits(binary.LittleEndian.Uint64(v.Data), dateBits))
	case bsoncore.TypeDecimal128:
		binary.LittleEndian.PutUint64(out.Data, r.key.Bits(binary.LittleEndian.Uint64(v.Data), decimalBits))
	}
	return out
}

// operand redacts an operand of a comparison: a value, but not a pattern.
func (r *redaction) operand(v bsoncore.Value) bsoncore.Value {
	if v.Type == bsoncore.TypeRegex || isOperators(v) {
		return r.fail(v)
	}
	return r.value(v)
}

// isOperators reports whether v is a document of operators.
func isOperators(v bsoncore.Value) bool {
	e, ok := wire.First(wire.Document(v))
	return ok && v.Type == bsoncore.TypeEmbeddedDocument && strings.HasPrefix(string(e.Key), "$")
}

// filters redacts an array of filters.
func (r *redaction) filters(v bsoncore.Value) bsoncore.Value {
	return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value { return r.filterOf(v) })
}

// filterOf redacts a filter.
func (r *redaction) filterOf(v bsoncore.Value) bsoncore.Value {
	return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
		switch {
		case key == "$and" || key == "$or" || key == "$nor":
			return r.filters(v)
		case strings.HasPrefix(key, "$"):
			return r.fail(v)
		case isOperators(v):
			return r.operators(v)
		}
		return r.operand(v)
	})
}

// operators redacts the conditions on a field.
func (r *redaction) operators(v bsoncore.Value) bsoncore.Value {
	return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
		switch key {
		case "$eq", "$ne", "$gt", "$gte", "$lt", "$lte":
			return r.operand(v)
		case "$in", "$nin", "$all":
			return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value { return r.operand(v) })
		case "$not":
			return r.operators(v)
		case "$elemMatch":
			return r.condition(v)
		case "$exists", "$type", "$size":
			return v
		}
		return r.fail(v)
	})
}

// condition redacts the condition on elements of an array.
func (r *redaction) condition(v bsoncore.Value) bsoncore.Value {
	switch e, _ := wire.First(wire.Document(v)); {
	case !isOperators(v), string(e.Key) == "$and", string(e.Key) == "$or", string(e.Key) == "$nor":
		return r.filterOf(v)
	}
	return r.operators(v)
}

// update redacts an update: operators or a whole document.
func (r *redaction) update(v bsoncore.Value) bsoncore.Value {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return r.fail(v) // a pipeline
	}
	if !isOperators(v) {
		return r.value(v)
	}
	return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
		switch key {
		case "$set", "$setOnInsert", "$min", "$max", "$inc", "$mul", "$pullAll":
			return r.value(v)
		case "$unset", "$rename", "$pop", "$currentDate":
			return v
		case "$push", "$addToSet":
			return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value { return r.pushed(v) })
		case "$pull":
			return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value {
				if v.Type == bsoncore.TypeEmbeddedDocument {
					return r.condition(v)
				}
				return r.operand(v)
			})
		}
		return r.fail(v)
	})
}

// pushed redacts a value that is added to an array.
func (r *redaction) pushed(v bsoncore.Value) bsoncore.Value {
	if !isOperators(v) {
		return r.value(v)
	}
	return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
		switch key {
		case "$each":
			return r.value(v)
		case "$slice", "$position":
			return v
		case "$sort":
			return r.names(v)
		}
		return r.fail(v)
	})
}

// stages redacts a pipeline. It fails for all but simple stages.
func (r *redaction) stages(v bsoncore.Value) bsoncore.Value {
	return r.within(v, func(_ string, v bsoncore.Value) bsoncore.Value {
		return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
			switch key {
			case "$match":
				return r.filterOf(v)
			case "$skip", "$limit", "$count":
				return v
			case "$sort", "$unwind", "$unset":
				return r.names(v)
			case "$project", "$group":
				return r.paths(v)
			}
			return r.fail(v)
		})
	})
}

// namers lists the operators whose operands are fields, or numbers that reveal nothing about documents.
var namers = []string{"$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$count"}

// names keeps names of fields and indexes and sort orders, and fails for anything else.
func (r *redaction) names(v bsoncore.Value) bsoncore.Value {
	return r.plain(v, func(string) bool { return true })
}

// paths keeps references to fields, and fails for computations.
func (r *redaction) paths(v bsoncore.Value) bsoncore.Value {
	return r.plain(v, func(text string) bool { return strings.HasPrefix(text, "$") })
}

func (r *redaction) plain(v bsoncore.Value, known func(text string) bool) bsoncore.Value {
	switch v.Type {
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		return r.within(v, func(key string, v bsoncore.Value) bsoncore.Value {
			if strings.HasPrefix(key, "$") && !slices.Contains(namers, key) {
				return r.fail(v)
			}
			return r.plain(v, known)
		})
	case bsoncore.TypeString:
		if known(string(wire.Text(v))) {
			return v
		}
	case bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDouble, bsoncore.TypeBoolean, bsoncore.TypeNull:
		return v
	}
	return r.fail(v)
}
