package mongo

import (
	"crypto/md5" // required by the protocol
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

const loginTime = 10 * time.Second

// login says hello, and logs in if the target's URI has a user.
func (c *conn) login(up endpoint.Upstream) error {
	if err := c.SetDeadline(time.Now().Add(loginTime)); err != nil {
		return err
	}
	var asks []byte
	if up.User != "" {
		asks = bsoncore.AppendStringElement(nil, "saslSupportedMechs", up.Database+"."+up.User)
	}
	hello, err := c.ask(adminCommand("hello", asks), nil, nil)
	if err != nil || up.User == "" {
		return err
	}
	mechanism := "SCRAM-SHA-1"
	each(document(hello, "saslSupportedMechs"), func(_ string, v bsoncore.Value) {
		if string(wire.Text(v)) == "SCRAM-SHA-256" {
			mechanism = "SCRAM-SHA-256"
		}
	})
	talk, err := conversation(mechanism, up)
	if err != nil {
		return err
	}
	return c.prove(talk, mechanism, up.Database)
}

func conversation(mechanism string, up endpoint.Upstream) (*scram.ClientConversation, error) {
	if mechanism == "SCRAM-SHA-1" {
		sum := md5.Sum([]byte(up.User + ":mongo:" + up.Password))
		client, err := scram.SHA1.NewClientUnprepped(up.User, hex.EncodeToString(sum[:]), "")
		if err != nil {
			return nil, err
		}
		return client.WithMinIterations(minIterations).NewConversation(), nil
	}
	password, err := stringprep.SASLprep.Prepare(up.Password)
	if err != nil {
		return nil, err
	}
	client, err := scram.SHA256.NewClientUnprepped(up.User, password, "")
	if err != nil {
		return nil, err
	}
	return client.WithMinIterations(minIterations).NewConversation(), nil
}

// minIterations is the minimum that the protocol requires of servers.
const minIterations = 4096

// maxSteps limits the steps of a login, which needs fewer.
const maxSteps = 5

var errLogin = errors.New("the login does not end")

// prove runs the SCRAM conversation to its end.
func (c *conn) prove(talk *scram.ClientConversation, mechanism, source string) error {
	name, id, heard := "saslStart", int64(0), ""
	for range maxSteps {
		said, err := talk.Step(heard)
		if err != nil {
			return err
		}
		body := bsoncore.AppendInt32Element([]byte{0, 0, 0, 0}, name, 1)
		if name == "saslStart" {
			body = bsoncore.AppendStringElement(body, "mechanism", mechanism)
			body = bsoncore.AppendDocumentElement(body, "options", scramOptions)
		} else {
			body = bsoncore.AppendInt32Element(body, "conversationId", int32(id))
		}
		body = bsoncore.AppendBinaryElement(body, "payload", 0, []byte(said))
		body = bsoncore.AppendStringElement(body, "$db", source)
		reply, err := c.ask(wire.FinishDocument(body, 0), nil, nil)
		if err != nil {
			return err
		}
		if code := failure(reply); code != "" {
			return fmt.Errorf("refused: %s", code)
		}
		id, _ = number(reply, "conversationId")
		_, payload, _ := value(reply, "payload").BinaryOK()
		name, heard = "saslContinue", string(payload)
		if truth(reply, "done") {
			_, err := talk.Step(heard)
			if err == nil && !talk.Valid() {
				err = errLogin
			}
			return err
		}
	}
	return errLogin
}

// scramOptions are {skipEmptyExchange: true}.
var scramOptions = wire.FinishDocument(bsoncore.AppendBooleanElement([]byte{0, 0, 0, 0}, "skipEmptyExchange", true), 0)
