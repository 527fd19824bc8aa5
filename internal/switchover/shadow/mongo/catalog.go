package mongo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// about holds the properties of a collection.
type about struct {
	view      bool // it reads other collections
	unique    bool // it has a unique index besides that of _id
	expires   bool // an index removes documents after a time
	collation bool // strings may be equal though their bytes differ

	note     string // why its data differ between servers
	volatile bool   // they differ between the targets, too
}

// catalog holds the properties of collections, by namespace. It is safe for concurrent use.
type catalog struct {
	mu sync.Mutex
	of map[string]about
}

func (c *catalog) about(namespace string) about {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[namespace]
}

func (c *catalog) note(namespace string, change func(*about)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.of[namespace]
	change(&a)
	if c.of == nil {
		c.of = map[string]about{}
	}
	c.of[namespace] = a
}

// notes returns the collections whose data differ by nature.
func (c *catalog) notes() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for namespace, a := range c.of {
		if a.note != "" {
			out = append(out, namespace+": "+a.note)
		}
	}
	slices.Sort(out)
	return out
}

// learn asks a server for its collections.
func (c *catalog) learn(ctx context.Context, client *mongo.Client) error {
	databases, err := client.ListDatabaseNames(ctx, bson.D{})
	if err != nil {
		return fmt.Errorf("listDatabases: %w", err)
	}
	for _, name := range databases {
		if name == "admin" || name == "local" || name == "config" {
			continue
		}
		db := client.Database(name)
		list, err := db.ListCollectionSpecifications(ctx, bson.D{})
		if err != nil {
			return fmt.Errorf("listCollections of %s: %w", name, err)
		}
		for _, spec := range list {
			if err := c.learnCollection(ctx, db, spec); err != nil {
				return fmt.Errorf("listIndexes of %s.%s: %w", name, spec.Name, err)
			}
		}
	}
	return nil
}

func (c *catalog) learnCollection(ctx context.Context, db *mongo.Database, spec mongo.CollectionSpecification) error {
	namespace := db.Name() + "." + spec.Name
	c.created(namespace, spec.Options)
	if spec.Type == "view" || strings.HasPrefix(spec.Name, "system.") {
		return nil
	}
	indexes, err := indexesOf(ctx, db.Collection(spec.Name))
	for _, index := range indexes {
		c.indexed(namespace, index)
	}
	return err
}

func indexesOf(ctx context.Context, c *mongo.Collection) (indexes []bson.Raw, err error) {
	cursor, err := c.Indexes().List(ctx)
	if err == nil {
		err = cursor.All(ctx, &indexes)
	}
	return indexes, err
}

// created records the options of a collection.
func (c *catalog) created(namespace string, options []byte) {
	c.note(namespace, func(a *about) {
		a.view = options != nil && has(options, "viewOn")
		a.collation = a.collation || options != nil && has(options, "collation")
		a.expires = a.expires || options != nil && has(options, "expireAfterSeconds")
	})
}

func (c *catalog) indexed(namespace string, index []byte) {
	c.note(namespace, func(a *about) {
		a.unique = a.unique || truth(index, "unique")
		a.expires = a.expires || has(index, "expireAfterSeconds")
	})
}

// follow processes a command that changes collections.
func (c *catalog) follow(q *request) {
	namespace := q.namespace()
	switch strings.ToLower(q.name) {
	case "create":
		c.created(namespace, q.body)
	case "collmod":
		if index := document(q.body, "index"); index != nil {
			c.indexed(namespace, index)
		}
	case "createindexes":
		for _, index := range q.documents("indexes") {
			c.indexed(namespace, index)
		}
	case "renamecollection":
		old := c.about(q.collection)
		c.note(text(q.body, "to"), func(a *about) { *a = old })
	}
}

// differs records why a collection's data differ between servers. volatile: between the targets, too.
func (c *catalog) differs(namespace, why string, volatile bool) {
	c.note(namespace, func(a *about) {
		a.note, a.volatile = why, a.volatile || volatile
	})
}

// expires reports whether an operation touches a collection whose documents expire.
func (c *catalog) expires(op *shadow.Operation) bool {
	return slices.ContainsFunc(op.Keys, func(key string) bool {
		namespace, _, _ := strings.Cut(key, shadow.Part)
		return c.about(namespace).expires
	})
}
