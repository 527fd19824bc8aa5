package iproto

// GreetingLen is the length in bytes of a server's greeting.
const GreetingLen = 128

// Type is the type of a request, or the code of a reply.
type Type uint32

// Types of requests, from the server's iproto_constants.h.
const (
	Select        Type = 1
	Insert        Type = 2
	Replace       Type = 3
	Update        Type = 4
	Delete        Type = 5
	Call16        Type = 6
	Auth          Type = 7
	Eval          Type = 8
	Upsert        Type = 9
	Call          Type = 10
	Execute       Type = 11
	Nop           Type = 12
	Prepare       Type = 13
	Begin         Type = 14
	Commit        Type = 15
	Rollback      Type = 16
	Raft          Type = 30
	RaftPromote   Type = 31
	RaftDemote    Type = 32
	RaftConfirm   Type = 40
	RaftRollback  Type = 41
	Ping          Type = 64
	Join          Type = 65
	Subscribe     Type = 66
	VoteOld       Type = 67
	Vote          Type = 68
	FetchSnapshot Type = 69
	Register      Type = 70
	JoinMeta      Type = 71
	JoinSnapshot  Type = 72
	ID            Type = 73
	Watch         Type = 74
	Unwatch       Type = 75
	Event         Type = 76
	WatchOnce     Type = 77
)

// Codes of replies.
const (
	OK        Type = 0
	Chunk     Type = 0x80   // box.session.push: the reply itself comes later
	ErrorFlag Type = 0x8000 // combined with the number of an error
)

// Numbers of errors, from the server's errcode.h.
const (
	ErrNoMemory      Type = 2   // ER_MEMORY_ISSUE
	ErrUnsupported   Type = 5   // ER_UNSUPPORTED
	ErrInvalid       Type = 20  // ER_INVALID_MSGPACK
	ErrNoProcedure   Type = 33  // ER_NO_SUCH_PROC
	ErrAccessDenied  Type = 42  // ER_ACCESS_DENIED
	ErrNoFunction    Type = 51  // ER_NO_SUCH_FUNCTION
	ErrConflict      Type = 97  // ER_TRANSACTION_CONFLICT
	ErrSchemaVersion Type = 109 // ER_WRONG_SCHEMA_VERSION
	ErrSystem        Type = 115 // ER_SYSTEM
)

// Keys of headers.
const (
	keyType          = 0x00
	keySync          = 0x01
	keySchemaVersion = 0x05
	keyStream        = 0x0a
)

// Keys of bodies.
const (
	keySpaceID   = 0x10
	keyIndexID   = 0x11
	keyLimit     = 0x12
	keyOffset    = 0x13
	keyIndexBase = 0x15
	keyKey       = 0x20
	keyTuple     = 0x21
	keyFunction  = 0x22
	keyUser      = 0x23
	keyExpr      = 0x27
	keyOps       = 0x28
	keyData      = 0x30
	keyError     = 0x31
	keySQLText   = 0x40
	keyStmtID    = 0x43
	keyFeatures  = 0x55
	keyEvent     = 0x57
	keyEventData = 0x58
	keySpaceName = 0x5e
	keyIndexName = 0x5f
)
