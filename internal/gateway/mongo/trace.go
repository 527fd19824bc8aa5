package mongo

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// tracing makes the spans of one session's commands. begin returns nil for a command that is not traced; the other
// functions of this file must not be called with nil. The only text of the client in a span is the name of a known
// command.
type tracing struct {
	tracer          *trace.Tracer // nil: no command is traced
	gateway, server string
	conn            trace.Connection
}

// begin begins the trace of a received message; waited is the time that it waited for memory. It returns nil if the
// message is not traced.
func (t *tracing) begin(now time.Time, waited time.Duration) *trace.Command {
	c := t.tracer.StartCommand(&t.conn, systemName, now, waited)
	if c != nil {
		c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	}
	return c
}

// systemName is MongoDB's name in OpenTelemetry's conventions, which also give it to spans without a better
// name.
const systemName = "mongodb"

// traceParsed records the name of a command and the times of decompressing (from began on) and parsing
// (the rest). It returns the current time.
func traceParsed(c *trace.Command, r *request, began time.Time, decompressing time.Duration) (now time.Time) {
	now = time.Now()
	if name := operationName(r.name); name != "" {
		c.SetName(name, attribute.String("db.operation.name", name))
	}
	c.AddSpan("codec request", began, decompressing, attribute.String("cinch.encoding.from", encodingName(r.compressor)))
	c.AddSpan("parse", began.Add(decompressing), now.Sub(began)-decompressing)
	return now
}

// sent records that a request is about to be sent to the server as out, and whether a link compresses it. Compressing
// it here began at since and took took; 0: it was not compressed here.
func (t *tracing) sent(c *trace.Command, out []byte, byLink bool, since time.Time, took time.Duration) {
	name := encodingOf(out)
	if byLink {
		name = "link"
	}
	encoding := attribute.String("cinch.encoding", name)
	c.AddSpan("codec request", since, took, encoding)
	c.SetUpstreamAttributes(attribute.String("server.address", t.server), encoding)
	c.StartUpstream()
}

// traceNoReply ends a command without a reply: the client wanted none, or err says why.
func traceNoReply(c *trace.Command, err error) {
	if err != nil {
		traceFailed(c, err)
		return
	}
	c.End("")
}

// traceReply records that the reply arrived at the time at, and how long it took to wait for memory and to decompress
// it. It returns the current time.
func traceReply(c *trace.Command, m *message, at time.Time) (now time.Time) {
	c.EndUpstream("", at)
	c.AddSpan("wait reply", at.Add(-m.waited), m.waited)
	c.AddSpan("codec reply", at, m.decompressTime, attribute.String("cinch.encoding.from", encodingName(m.compressor)))
	return time.Now()
}

// traceEncoded records that compressing a reply for the client, begun at since, has ended.
func traceEncoded(c *trace.Command, out []byte, since time.Time) {
	c.AddSpan("codec reply", since, time.Since(since), attribute.String("cinch.encoding", encodingOf(out)))
}

// traceEnded ends a command whose reply has been sent, or could not be because of err.
func traceEnded(c *trace.Command, doc []byte, err error) {
	if err != nil {
		traceFailed(c, err)
		return
	}
	if code := errorCode(doc); code != "" {
		c.RecordError(code, attribute.String("db.response.status_code", code))
	}
	c.End("")
}

// traceFailed ends a command that got no reply because of err.
func traceFailed(c *trace.Command, err error) {
	class := errorClasses.Of(err)
	switch {
	case errors.Is(err, errNotPrimary):
		class = "not_primary"
	case class == "":
		class = trace.ConnectionEnded
	}
	c.End(class)
}

// errorCode returns the error code in a reply; "": the command succeeded.
func errorCode(doc []byte) (code string) {
	if len(doc) == 0 || isOK(doc) {
		return ""
	}
	code = "unknown"
	if e, ok, err := wire.Find(doc, "code"); ok && err == nil {
		if n, isNumber := e.Value.AsInt64OK(); isNumber {
			code = strconv.FormatInt(n, 10)
		}
	}
	return code
}

// encodingOf returns the name of a message's compression.
func encodingOf(b []byte) string {
	h, err := wire.ParseHeader(b)
	if err != nil || h.OpCode != wire.OpCompressed || len(b) < wire.CompressedHeaderLen {
		return encodingName(plain)
	}
	c, err := wire.ParseCompressed(h, b)
	if err != nil {
		return encodingName(plain)
	}
	return encodingName(c.Compressor)
}

func encodingName(id wire.CompressorID) string {
	if id == plain {
		return "identity"
	}
	return nameOf(id)
}

// operationName returns the name of a known command; "" for others.
func operationName(name []byte) string { return operations[string(name)] }

// operations lists the commands in MongoDB's documentation. Servers too accept one spelling of each, except
// of isMaster.
var operations = operationNames(`
	abortReshardCollection abortTransaction abortUnshardCollection addShard addShardToZone aggregate analyzeShardKey appendOplogNote
	applyOps authenticate autoSplitVector balancerCollectionStatus balancerStart balancerStatus balancerStop buildInfo bulkWrite checkShardingIndex
	cinchGateway cleanupOrphaned cleanupReshardCollection clearJumboFlag cloneCollectionAsCapped collMod collStats commitReshardCollection
	commitTransaction compact compactStructuredEncryptionData configureQueryAnalyzer connPoolStats connPoolSync connectionStatus
	convertToCapped coordinateCommitTransaction count create createIndexes createRole createSearchIndexes createUser currentOp
	cursorInfo dataSize dbHash dbStats delete distinct driverOIDTest drop dropAllRolesFromDatabase dropAllUsersFromDatabase
	dropConnections dropDatabase dropIndexes dropRole dropSearchIndex dropUser enableSharding endSessions explain features filemd5 find
	findAndModify flushRouterConfig fsync fsyncUnlock geoSearch getAuditConfig getClusterParameter getCmdLineOpts
	getDefaultRWConcern getLastError getLog getMore getParameter getShardMap getShardVersion getnonce grantPrivilegesToRole
	grantRolesToRole grantRolesToUser hello hostInfo insert invalidateUserCache isMaster isdbgrid ismaster killAllSessions
	killAllSessionsByPattern killCursors killOp killSessions listCollections listCommands listDatabases listIndexes
	listSearchIndexes listShards lockInfo logRotate logout mapReduce medianKey mergeAllChunksOnShard mergeChunks moveChunk moveCollection
	movePrimary moveRange netstat ping planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter profile reIndex
	refineCollectionShardKey refreshSessions removeQuerySettings removeShard removeShardFromZone renameCollection
	replSetAbortPrimaryCatchUp replSetFreeze replSetGetConfig replSetGetStatus replSetInitiate replSetMaintenance
	replSetReconfig replSetResizeOplog replSetStepDown replSetSyncFrom reshardCollection resetError revokePrivilegesFromRole
	revokeRolesFromRole revokeRolesFromUser rolesInfo rotateCertificates saslContinue saslStart serverStatus setAllowMigrations
	setAuditConfig setClusterParameter setDefaultRWConcern setFeatureCompatibilityVersion setIndexCommitQuorum setParameter
	setProfilingLevel setQuerySettings setShardVersion setUserWriteBlockMode shardCollection shardConnPoolStats shardingState
	shutdown split splitVector startSession top transitionFromDedicatedConfigServer transitionToDedicatedConfigServer
	unsetSharding unshardCollection update updateRole updateSearchIndex updateUser updateZoneKeyRange usersInfo validate
	validateDBMetadata waitForFailPoint whatsmyuri whatsmysni
	`)

func operationNames(list string) map[string]string {
	m := map[string]string{}
	for name := range strings.FieldsSeq(list) {
		m[name] = name
	}
	return m
}
