package testenv

import "testing"

func TestTarantoolStartsAgain(t *testing.T) {
	s := Tarantool(t, "box.schema.space.create('kept', {if_not_exists = true})")
	s.Kill()
	if greets(s.Addr) {
		t.Fatal("a killed server greets")
	}
	if err := s.Restart(t); err != nil {
		t.Fatal(err)
	}
	if !greets(s.Addr) {
		t.Fatal("no greeting after the restart")
	}
}
