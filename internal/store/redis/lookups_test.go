package redis

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

var _ envelope.Dictionaries = (*Dicts)(nil)

func TestMissingIsAskedForOnce(t *testing.T) {
	server := testenv.Redis(t)
	client := connect(t, goredis.Options{Addr: server.Addr})
	count := &asked{}
	client.AddHook(count)
	d := NewDicts(DictsOptions{Client: client, MissTTL: time.Hour})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if _, err := d.Dictionary(0xdeadbeef); !errors.Is(err, envelope.ErrDictMissing) {
					t.Errorf("dictionary: %v, want ErrDictMissing", err)
				}
			}
		})
	}
	wg.Wait()
	if n := count.count("function list"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestMissingIsAskedForAgain(t *testing.T) {
	server := testenv.Redis(t)
	client := connect(t, goredis.Options{Addr: server.Addr})
	d := NewDicts(DictsOptions{Client: client, MissTTL: time.Nanosecond})
	x := testDict(t, "late")
	if _, err := d.Dictionary(x.Number()); !errors.Is(err, envelope.ErrDictMissing) {
		t.Fatalf("dictionary: %v, want ErrDictMissing", err)
	}
	other, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	mustPublish(t, other, x)
	time.Sleep(time.Millisecond)
	if _, err := d.Dictionary(x.Number()); err != nil {
		t.Fatal(err)
	}
}

func TestUnreachableIsNotMissing(t *testing.T) {
	server := miniredis.RunT(t)
	client := connect(t, goredis.Options{Addr: server.Addr()})
	count := &asked{}
	client.AddHook(count)
	d := NewDicts(DictsOptions{Client: client, MissTTL: time.Hour})
	server.Close()
	for number := range uint32(500) {
		if _, err := d.Dictionary(number + 1); err == nil || errors.Is(err, envelope.ErrDictMissing) {
			t.Fatalf("dictionary: %v", err)
		}
	}
	if n := count.count("function list"); n != 1 {
		t.Errorf("a server that is down was asked %d times", n)
	}
}

func TestDeniedIsNotMissing(t *testing.T) {
	server := testenv.Redis(t)
	_, admin := gatewayOn(t, server.Addr, &testenv.Log{})
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "gw", "on", ">pw", "+ping").Err())
	client := connect(t, goredis.Options{Addr: server.Addr, Username: "gw", Password: "pw"})
	d := NewDicts(DictsOptions{Client: client})
	if _, err := d.Dictionary(7); !errors.Is(err, ErrDenied) || errors.Is(err, envelope.ErrDictMissing) {
		t.Errorf("dictionary: %v, want ErrDenied", err)
	}
}

// Not every number that clients make up is looked up in the server. Dictionaries published meanwhile are still
// found.
func TestMadeUpNumbersAreNotAllAskedFor(t *testing.T) {
	server := testenv.Redis(t)
	client := connect(t, goredis.Options{Addr: server.Addr})
	count := &asked{}
	client.AddHook(count)
	d := NewDicts(DictsOptions{Client: client})
	number := uint32(1)
	flood := func(n int) {
		for range n {
			number++
			if _, err := d.Dictionary(number); err == nil {
				t.Fatalf("%08x was found", number)
			}
		}
	}
	const numbers = 20_000
	flood(numbers)
	if n := count.count("function list"); n > numbers/4 {
		t.Errorf("%d questions for %d numbers", n, numbers)
	}
	x := testDict(t, "late")
	other, _ := gatewayOn(t, server.Addr, &testenv.Log{})
	mustPublish(t, other, x)
	testenv.Eventually(t, "it is found in the flood", func() bool {
		flood(200)
		_, err := d.Dictionary(x.Number())
		return err == nil
	})
}
