package mongo

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Operation is the profiler's entry for one operation.
type Operation struct {
	Space    string    `bson:"ns"`
	Op       string    `bson:"op"` // query, getmore, insert, update, remove, command
	Command  bson.Raw  `bson:"command"`
	Returned int       `bson:"nreturned"`
	Inserted int       `bson:"ninserted"`
	Length   int       `bson:"responseLength"` // bytes of the reply's document
	At       time.Time `bson:"ts"`
}

// maxProfile limits the number of profiler entries that are read, the newest first.
const maxProfile = 5000

// Profile returns the newest entries of the profiler of a database. full reports whether the profiler records
// every operation; then the entries are a sample of all operations. An empty list without an error means that
// the profiler is off, or that the user may not read it.
func (s *Server) Profile(ctx context.Context, database string) (list []Operation, full bool, err error) {
	db := s.client.Database(database)
	var setting struct {
		Was        int
		SampleRate float64
	}
	if err := db.RunCommand(ctx, bson.D{{Key: "profile", Value: -1}}).Decode(&setting); err == nil {
		full = setting.Was == 2
	}
	cursor, err := db.Collection("system.profile").Find(ctx, bson.D{{Key: "appName", Value: bson.D{{Key: "$ne", Value: "cinch plan"}}}},
		options.Find().SetSort(bson.D{{Key: "$natural", Value: -1}}).SetLimit(maxProfile).
			SetProjection(bson.D{{Key: "ns", Value: 1}, {Key: "op", Value: 1}, {Key: "command", Value: 1}, {Key: "nreturned", Value: 1}, {Key: "ninserted", Value: 1}, {Key: "responseLength", Value: 1}, {Key: "ts", Value: 1}}))
	if err == nil {
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			var o Operation
			if cursor.Decode(&o) == nil {
				list = append(list, o)
			}
		}
		err = cursor.Err()
	}
	var a Activity
	if err = classify(err); err != nil && !a.recordDenied("profile", err) {
		return nil, false, err
	}
	return list, full, nil
}
