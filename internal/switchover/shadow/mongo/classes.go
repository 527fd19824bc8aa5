package mongo

import "strings"

// class determines how a command is mirrored.
type class uint8

const (
	unknown class = iota // not sent, counted
	nothing              // not sent: concerns the server, the login or the session, not data
	left                 // not sent, counted: it administers the server
	look                 // sent, but compared by success only: its answer differs by nature
	find
	aggregate
	count
	distinct
	getMore
	killCursors
	insert
	update
	remove
	findAndModify
	bulkWrite // from 8.0 on: sent, touches everything
	mapReduce
	define // changes collections: touches everything
	commit
	abort
)

// commands by class, names in lower case. It has all commands of MongoDB 6.0. Internal commands between
// servers begin with an underscore and are not listed.
var commands = map[class]string{
	nothing: `hello ismaster saslstart saslcontinue authenticate logout getnonce
		startsession refreshsessions endsessions killsessions killallsessions killallsessionsbypattern
		ping buildinfo hostinfo serverstatus getcmdlineopts getlog getparameter getdiagnosticdata getfreemonitoringstatus getlasterror getclusterparameter
		getdefaultrwconcern connectionstatus connpoolstats whatsmyuri listcommands features driveroidtest availablequeryoptions currentop lockinfo top profile
		getshardmap getshardversion getdatabaseversion shardingstate checkshardingindex
		replsetgetconfig replsetgetrbid replsetgetstatus replsetheartbeat replsetrequestvotes replsetupdateposition
		rolesinfo usersinfo`,
	left: `createuser updateuser dropuser dropallusersfromdatabase grantrolestouser revokerolesfromuser
		createrole updaterole droprole dropallrolesfromdatabase grantprivilegestorole revokeprivilegesfromrole grantrolestorole revokerolesfromrole invalidateusercache
		replsetabortprimarycatchup replsetfreeze replsetinitiate replsetmaintenance replsetreconfig replsetresizeoplog replsetstepdown replsetstepup replsetsyncfrom
		abortshardsplit commitshardsplit forgetshardsplit donorabortmigration donorforgetmigration donorstartmigration
		recipientforgetmigration recipientsyncdata recipientvoteimportedfiles autosplitvector splitvector splitchunk mergechunks cleanuporphaned
		flushrouterconfig setshardversion clusteraborttransaction clusteraggregate clustercommittransaction clusterdelete clusterfind
		clustergetmore clusterinsert clusterupdate coordinatecommittransaction preparetransaction votecommitindexbuild internalrenameifoptionsandindexesmatch
		applyops appendoplognote compact compactstructuredencryptiondata connpoolsync dbcheck dropconnections fsync fsyncunlock
		killop logrotate plancacheclear plancacheclearfilters plancachelistfilters plancachesetfilter rotatecertificates
		setclusterparameter setdefaultrwconcern setfeaturecompatibilityversion setfreemonitoring setindexcommitquorum setparameter setprofilingfilterglobally
		setuserwriteblockmode shutdown startrecordingtraffic stoprecordingtraffic waitforfailpoint configurefailpoint validatedbmetadata
		captrunc clearlog cpuload echo emptycapped godinsert httpclientrequest logmessage makesnapshot pinhistoryreplicated reaplogicalsessioncachenow
		refreshlogicalsessioncachenow replsettest replsettestegress setcommittedsnapshot sleep stagedebug testdeprecation testdeprecationinversion2
		testinternaltransactions testremoval testreshardclonecollection testversion2 testversions1and2 waitforongoingchunksplits whatsmysni`,
	look:          `listcollections listdatabases listindexes collstats dbstats datasize dbhash validate explain filemd5`,
	find:          "find",
	aggregate:     "aggregate",
	count:         "count",
	distinct:      "distinct",
	getMore:       "getmore",
	killCursors:   "killcursors",
	insert:        "insert",
	update:        "update",
	remove:        "delete",
	findAndModify: "findandmodify",
	bulkWrite:     "bulkwrite",
	mapReduce:     "mapreduce",
	define: `create createindexes dropindexes deleteindexes drop dropdatabase renamecollection collmod converttocapped clonecollectionascapped
		clonecollection reindex createsearchindexes dropsearchindex updatesearchindex`,
	commit: "committransaction",
	abort:  "aborttransaction",
}

var classes = classesByName()

func classesByName() map[string]class {
	out := map[string]class{}
	for c, names := range commands {
		for _, name := range strings.Fields(names) {
			out[name] = c
		}
	}
	return out
}

// classOf returns the class of a command; case does not matter.
func classOf(name string) class {
	if strings.HasPrefix(name, "_") {
		return left
	}
	return classes[strings.ToLower(name)]
}

// writes reports whether commands of a class change data.
func (c class) writes() bool {
	switch c {
	case insert, update, remove, findAndModify, bulkWrite, mapReduce, define:
		return true
	}
	return false
}
