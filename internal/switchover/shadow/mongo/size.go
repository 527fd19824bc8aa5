package mongo

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// Size returns the size on disk that a target reports for its databases, and its CPU time. It first has the
// target write its memory to files (fsync), if the user may do that.
func (p *Protocol) Size(ctx context.Context, t *shadow.Target) (s usage.Size, err error) {
	client, err := connect(ctx, t.Upstream)
	if err != nil {
		return s, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	var list struct {
		TotalSize int64 `bson:"totalSize"`
	}
	admin := client.Database("admin")
	if err := admin.RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err(); err != nil {
		s.Why = append(s.Why, "data not yet on disk: fsync: "+err.Error())
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "listDatabases", Value: 1}}).Decode(&list); err != nil {
		return s, err
	}
	s.Bytes, s.By = list.TotalSize, "listDatabases"
	var status struct {
		Extra struct {
			User   int64 `bson:"user_time_us"`
			System int64 `bson:"system_time_us"`
		} `bson:"extra_info"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
		s.Why = append(s.Why, "CPU: serverStatus: "+err.Error())
	}
	s.CPU = time.Duration(status.Extra.User+status.Extra.System) * time.Microsecond
	return s, nil
}
