package patroni

import (
	"reflect"
	"strings"
	"testing"
)

const configuration = `scope: orders # of the team
name: a
restapi:
  listen: 0.0.0.0:8008
  connect_address: 10.0.0.1:8008
etcd3: {hosts: "10.0.0.9:2379"}
postgresql:
  listen: 127.0.0.1:5432
  connect_address: 10.0.0.1:5432
  data_dir: /data/a
  pgpass: /tmp/pgpass
  authentication:
    replication: {username: replicator, password: "007"}
tags:
  failover_priority: 3
  clonefrom: true
`

// A new member has its own name, addresses and directory; unknown keys, comments and passwords stay as they
// were.
func TestDerive(t *testing.T) {
	got, err := Derive([]byte(configuration), NewMember{
		Name: "a2", Address: "10.0.0.11:5433", API: "10.0.0.11:8009", Data: "/srv/a2", Parameters: map[string]string{"port": "5433", "full_page_writes": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `scope: orders # of the team
name: a2
restapi:
  listen: 0.0.0.0:8009
  connect_address: 10.0.0.11:8009
etcd3: {hosts: "10.0.0.9:2379"}
postgresql:
  listen: 10.0.0.11:5433
  connect_address: 10.0.0.11:5433
  data_dir: /srv/a2
  pgpass: /tmp/pgpass.a2
  authentication:
    replication: {username: replicator, password: "007"}
  parameters:
    full_page_writes: "off"
tags:
  failover_priority: 3
  clonefrom: true
`
	if string(got) != want {
		t.Errorf("%s", got)
	}
	if _, err := Derive([]byte("postgresql: {config_dir: /etc/postgresql}"), NewMember{}); err == nil {
		t.Error("a configuration beside the data")
	}
}

// Tags are set and restored.
func TestSetTags(t *testing.T) {
	edited, was, err := SetTags([]byte(configuration), map[string]any{"nofailover": true, "failover_priority": nil, "nosync": true})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(was, map[string]any{"nofailover": nil, "failover_priority": 3, "nosync": nil}) {
		t.Errorf("%v", was)
	}
	if want := "tags:\n  clonefrom: true\n  nofailover: true\n  nosync: true\n"; !strings.HasSuffix(string(edited), want) {
		t.Errorf("%s", edited)
	}
	back, _, err := SetTags(edited, was)
	if err != nil {
		t.Fatal(err)
	}
	if want := "tags:\n  clonefrom: true\n  failover_priority: 3\n"; !strings.HasSuffix(string(back), want) {
		t.Errorf("%s", back)
	}
}
