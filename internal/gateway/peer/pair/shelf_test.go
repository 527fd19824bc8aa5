package pair

import (
	"encoding/binary"
	"testing"

	"github.com/cinch-layer/cinch/codec"
)

// dictOf makes a dictionary of n bytes, another one for each number.
func dictOf(t testing.TB, number, n int) *codec.Dict {
	t.Helper()
	content := make([]byte, n)
	binary.LittleEndian.PutUint32(content[4:], uint32(number+1))
	d, err := codec.NewDict(content)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestShelf(t *testing.T) {
	const size = 1 << 10
	limits := Limits{Bytes: 256 * size, Idle: 32 * size}
	s := NewShelf(limits)
	var first []*codec.Dict
	for i := range 3 {
		d := dictOf(t, i, size)
		if s.Add(d) != d {
			t.Fatal("no room")
		}
		if s.Add(dictOf(t, i, size)) != d {
			t.Error("the same content is held twice")
		}
		s.Drop(d)
		first = append(first, d)
	}
	if d := s.Find(first[0].Hash()); d != first[0] {
		t.Error(d)
	}
	s.Drop(first[0])
	for i := range 2 * limits.Idle / size { // they are not kept
		d := s.Add(dictOf(t, 100+i, size))
		if d == nil {
			t.Fatal("no room")
		}
		s.Drop(d)
	}
	if n := s.Bytes(); n != limits.Idle {
		t.Errorf("%d bytes are held", n)
	}
	for _, d := range first { // they have users still
		if s.Find(d.Hash()) != d {
			t.Error("a dictionary with users is gone")
		}
	}
	kept := 0
	for d := first[0]; d != nil && kept < 2*limits.Bytes/size; kept++ { // all of them are kept
		d = s.Add(dictOf(t, 1000+kept, size))
	}
	if n := s.Bytes(); n != limits.Bytes || s.Len() != limits.Bytes/size {
		t.Errorf("%d bytes in use, %d dictionaries", n, s.Len())
	}
	if list := s.Latest(16); len(list) != 16 {
		t.Errorf("%d are the latest", len(list))
	}
}

// The one that was used last is first, and those that are listed stay until they are dropped.
func TestLatest(t *testing.T) {
	const size = 1 << 10
	s := NewShelf(Limits{Bytes: 10 * size, Idle: 4 * size})
	var dicts []*codec.Dict
	for i := range 4 {
		dicts = append(dicts, s.Add(dictOf(t, i, size)))
	}
	for _, i := range []int{2, 0, 3, 1} {
		s.Drop(dicts[i])
	}
	list := s.Latest(2)
	if len(list) != 2 || list[0] != dicts[1] || list[1] != dicts[3] {
		t.Fatal("not the latest")
	}
	for i := range 20 {
		s.Drop(s.Add(dictOf(t, 100+i, size)))
	}
	for i, here := range []bool{false, true, false, true} {
		if got := s.Find(dicts[i].Hash()) != nil; got != here {
			t.Errorf("dictionary %d is here: %v", i, got)
		}
	}
	s.Drop(nil)
}

// Without room for idle ones a dictionary leaves with its last user.
func TestShelfKeepsNothingIdle(t *testing.T) {
	s := NewShelf(Limits{Bytes: 1 << 10})
	d := s.Add(dictOf(t, 1, 1<<10))
	if s.Add(d) != d || s.Add(dictOf(t, 2, 16)) != nil {
		t.Error("the bound is of contents")
	}
	s.Drop(d)
	if s.Len() != 1 {
		t.Error("it left with a user left")
	}
	s.Drop(d)
	if s.Len() != 0 || s.Bytes() != 0 {
		t.Errorf("%d are held, %d bytes", s.Len(), s.Bytes())
	}
}

// Dictionaries of a few bytes take more memory than their bytes.
func TestShelfOfTinyDictionaries(t *testing.T) {
	limits := Limits{Bytes: 64 << 20, Idle: 8 << 20, Each: 4 << 10}
	s := NewShelf(limits)
	for i := range 20_000 {
		d := s.Add(dictOf(t, i, codec.MinDictLen))
		if d == nil {
			t.Fatal("no room")
		}
		s.Drop(d)
	}
	if n := s.Len(); n != limits.Idle/limits.Each {
		t.Errorf("%d dictionaries that nobody uses are kept", n)
	}
}
