package mongo

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// tracing makes the spans of one session's commands. A command that is not traced is nil, and none of the functions here are called
// for it. Of what a client has sent a span has the command's name, if it is a known one.
type tracing struct {
	by              *trace.Tracer // nil: no command is traced
	gateway, server string
	open            trace.Connection
}

// begin begins the trace of a message that has come now, after such a wait for memory; nil: it is not traced.
func (t *tracing) begin(now time.Time, waited time.Duration) *trace.Command {
	c := t.by.Command(&t.open, systemName, now, waited)
	if c != nil {
		c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	}
	return c
}

// systemName is MongoDB's in the conventions, and that of a span for which they have no better one.
const systemName = "mongodb"

// parsed records what a message is: opening it took so long since it came, and reading it the rest. It returns the time.
func parsed(c *trace.Command, r *request, came time.Time, opening time.Duration) (now time.Time) {
	now = time.Now()
	if name := operationName(r.name); name != "" {
		c.Is(name, attribute.String("db.operation.name", name))
	}
	c.Part("codec request", came, opening, attribute.String("cinch.encoding.from", encodingName(r.came)))
	c.Part("parse", came.Add(opening), now.Sub(came)-opening)
	return now
}

// sends records that a request is about to go to the server as out, which took so long to make since then; 0: it was not compressed.
func (t *tracing) sends(c *trace.Command, out []byte, since time.Time, took time.Duration) {
	encoding := attribute.String("cinch.encoding", encodingOf(out))
	c.Part("codec request", since, took, encoding)
	c.Goes(attribute.String("server.address", t.server), encoding)
	c.Asks()
}

// unanswered ends a command that gets no reply: the client wanted none, or there was an error.
func unanswered(c *trace.Command, err error) {
	if err != nil {
		broken(c, err)
		return
	}
	c.End("")
}

// arrived records that the reply was there at a time, and how long waiting for memory and opening it took. It returns
// the time.
func arrived(c *trace.Command, m *message, at time.Time) (now time.Time) {
	c.Answered("", at)
	c.Part("wait reply", at.Add(-m.waited), m.waited)
	c.Part("codec reply", at, m.opening, attribute.String("cinch.encoding.from", encodingName(m.came)))
	return time.Now()
}

// formed records that a reply was compressed for the client since then.
func formed(c *trace.Command, out []byte, since time.Time) {
	c.Part("codec reply", since, time.Since(since), attribute.String("cinch.encoding", encodingOf(out)))
}

// ended ends a command whose reply the client has, or would have had but for an error.
func ended(c *trace.Command, doc []byte, err error) {
	if err != nil {
		broken(c, err)
		return
	}
	if code := failureOf(doc); code != "" {
		c.Fails(code, attribute.String("db.response.status_code", code))
	}
	c.End("")
}

// broken ends a command that got no reply.
func broken(c *trace.Command, err error) {
	class := errorClasses.Of(err)
	switch {
	case errors.Is(err, errNotPrimary):
		class = "not_primary"
	case class == "":
		class = trace.ConnectionEnded
	}
	c.End(class)
}

// failureOf is the code in a reply that says that a command has failed; "": it does not.
func failureOf(doc []byte) (code string) {
	if len(doc) == 0 || saysOK(doc) {
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

// encodingOf is how a message is compressed.
func encodingOf(b []byte) string {
	if wire.IsPaired(b) {
		return pairName
	}
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

// operationName is the name of a command; "" if no command is called that.
func operationName(name []byte) string { return operations[string(name)] }

// operations are the commands of MongoDB's documentation. In servers too each has one spelling, but for isMaster.
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
