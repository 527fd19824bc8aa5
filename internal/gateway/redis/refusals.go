package redis

import (
	"net"
)

// refusals answer requests that are not carried out for what was found at their keys.
type refusals struct {
	talk   *conversation
	second *second
	vault  *vault
	client net.Addr
	req    *request // the one at hand
}

// over refuses the request at hand for what was found at its keys. The gateway may have looked there
// by its own rights, so a user who may not run the request there hears what the server says to that,
// and not what the keys hold.
func (f *refusals) over(text string) error {
	if said := f.second.forbidden(f.req.args); said != "" {
		text = said
	}
	return f.talk.refuse(text)
}

// broken answers for a sealed value that does not open.
func (f *refusals) broken(err error) error {
	pattern := ""
	if args := f.req.args; len(args) > 1 {
		pattern = patternOf(args[1])
	}
	return f.over(f.vault.sayBroken(f.client, err, pattern))
}

// unless refuses the request at hand, but for an error of the connection.
func (f *refusals) unless(err error, text string) error {
	if err != nil {
		return err
	}
	return f.talk.refuse(text)
}
