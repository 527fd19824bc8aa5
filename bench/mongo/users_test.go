package main

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The published table was measured on documents of this size.
func TestUsersHaveTheSize(t *testing.T) {
	total := 0
	for i := range 1000 {
		raw, err := bson.Marshal(user(i))
		if err != nil {
			t.Fatal(err)
		}
		total += len(raw)
	}
	if mean := total / 1000; mean < size-3 || mean > size+3 {
		t.Errorf("%d bytes a document, want %d", mean, size)
	}
}
