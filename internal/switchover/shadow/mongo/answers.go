package mongo

import (
	"hash/maphash"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// seed of the digests, which are compared only within one process.
var seed = maphash.MakeSeed()

// byNature lists elements of answers that differ even between servers that have executed the same commands.
var byNature = []string{
	"ok", "operationTime", "$clusterTime", "electionId", "opTime", "writeConcernError", "$gleStats", "lastCommittedOpTime", "$configTime", "$topologyTime",
	"$configServerState", "atClusterTime", "retriedStmtIds", "errorLabels", "waitedMS",
}

// answerOf returns the comparable form of an answer.
func answerOf(body []byte, form uint8) shadow.Answer {
	if code := failure(body); code != "" {
		return shadow.Answer{Error: code}
	}
	if form != counters {
		return answerOfDocuments(body, form)
	}
	var a shadow.Answer
	n, counted := number(body, "n")
	a.Missing = counted && n == 0
	each(body, func(key string, v bsoncore.Value) {
		switch {
		case key == "writeErrors":
			a.Digest += digestErrors(wire.Document(v))
		case !slices.Contains(byNature, key):
			a.Digest += digest(key, v)
		}
	})
	return a
}

// failure returns the code of an error; "": the answer is no error.
func failure(body []byte) string {
	if truth(body, "ok") {
		return ""
	}
	if name := text(body, "codeName"); name != "" {
		return name
	}
	n, _ := number(body, "code")
	return strconv.FormatInt(n, 10)
}

func digest(key string, v bsoncore.Value) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(key)
	_ = h.WriteByte(byte(v.Type))
	_, _ = h.Write(v.Data)
	return h.Sum64()
}

// digestErrors hashes the index and the code of each write error. Texts are left out, since they may name
// things of one server.
func digestErrors(errors []byte) (sum uint64) {
	each(errors, func(_ string, v bsoncore.Value) {
		if e := wire.Document(v); e != nil {
			sum += digest(strconv.Itoa(int(value(e, "code").Type)), value(e, "code")) ^ digest("index", value(e, "index"))
		}
	})
	return sum
}

// answerOfDocuments compares the documents of a cursor's batch, or the values of distinct.
func answerOfDocuments(body []byte, form uint8) (a shadow.Answer) {
	n := uint64(0)
	each(batchOf(body), func(_ string, v bsoncore.Value) {
		n++
		switch form {
		case sequence:
			a.Digest = a.Digest*31 + digest("", v)
		case set:
			a.Digest += digest("", v)
		}
	})
	if form == many {
		a.Digest = n
	}
	a.Missing = n == 0
	return a
}

// batchOf returns the array of documents that a query has found.
func batchOf(body []byte) []byte {
	if values := document(body, "values"); values != nil {
		return values
	}
	cursor := document(body, "cursor")
	if cursor == nil {
		return nil
	}
	if first := document(cursor, "firstBatch"); first != nil {
		return first
	}
	return document(cursor, "nextBatch")
}

// cursorOf returns the cursor ID in an answer; 0: none, or its end.
func cursorOf(body []byte) int64 {
	cursor := document(body, "cursor")
	if cursor == nil {
		return 0
	}
	id, _ := number(cursor, "id")
	return id
}

// labelled reports whether an error has a label.
func labelled(body []byte, label string) (is bool) {
	each(document(body, "errorLabels"), func(_ string, v bsoncore.Value) { is = is || string(wire.Text(v)) == label })
	return is
}

// join combines the answers of several statements into one.
func join(all, one shadow.Answer, c shadow.Check) shadow.Answer {
	if all.Error == "" {
		all.Error = one.Error
	}
	if c == shadow.Exact {
		all.Digest = all.Digest*31 + one.Digest
	}
	return all
}
