package tarantool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

func install(t *testing.T, c *Conn, o InstallOptions) []string {
	t.Helper()
	did, err := Install(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return did
}

func TestInstall(t *testing.T) {
	server := testenv.Tarantool(t, schemaScript)
	c := mustConnect(t, server.Addr, "", "")
	would := install(t, c, InstallOptions{Users: []string{"reader"}, DryRun: true})
	if len(would) == 0 {
		t.Fatal("a dry run would do nothing")
	}
	if s, err := Load(t.Context(), c); err != nil || s.SpaceByName(schema.DictSpace) != nil {
		t.Fatalf("a dry run changed something, %v", err)
	}
	did := install(t, c, InstallOptions{Users: []string{"reader"}})
	if len(did) <= len(functions()) || !slices.Contains(did, "granted read on space cinch_dictionaries to reader") {
		t.Errorf("did %q", did)
	}
	if again := install(t, c, InstallOptions{Users: []string{"reader"}}); len(again) != 0 {
		t.Errorf("did again %q", again)
	}
	checkRights(t, server.Addr)
	checkRenewed(t, c, server.Addr)
}

// checkRights checks what ordinary users can do after Install.
func checkRights(t *testing.T, addr string) {
	t.Helper()
	reader := mustConnect(t, addr, "reader", "secret")
	s, err := Load(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.SpaceByName("docs").Constraint(1); got != "" {
		t.Errorf("doc is touched: %s", got)
	}
	if got := s.SpaceByName(schema.DictSpace).Constraint(2); got != "the space holds dictionaries" {
		t.Errorf("dictionaries may be sealed: %q", got)
	}
	if err := reader.eval(t.Context(), "return 1", nil, nil); !errors.Is(err, ErrDenied) {
		t.Errorf("eval: %v", err)
	}
	if _, err := Install(t.Context(), reader, InstallOptions{}); !errors.Is(err, ErrDenied) {
		t.Errorf("an ordinary user can install: %v", err)
	}
}

// checkRenewed replaces a function by an older release's, and checks that Install renews it.
func checkRenewed(t *testing.T, c *Conn, addr string) {
	t.Helper()
	err := c.eval(t.Context(), `box.schema.func.drop('cinch_status')
		box.session.su('admin', box.schema.func.create, 'cinch_status', {body = 'function() return 1 end'})
		box.session.su('admin', box.schema.role.grant, 'public', 'execute', 'function', 'cinch_status')`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if did := install(t, c, InstallOptions{}); !slices.Equal(did, []string{"renewed function cinch_status"}) {
		t.Errorf("did %q", did)
	}
	reader := mustConnect(t, addr, "reader", "secret")
	if _, err := status(t.Context(), reader, nil); err != nil {
		t.Errorf("the grants of a renewed function are gone: %v", err)
	}
	if did := install(t, c, InstallOptions{Remove: true}); len(did) != len(functions())+2 {
		t.Errorf("removed %q", did)
	}
	if _, err := status(t.Context(), reader, nil); !errors.Is(err, ErrNoInit) {
		t.Errorf("without functions: %v", err)
	}
}

func TestInstallUnknownUser(t *testing.T) {
	server := testenv.Tarantool(t, "")
	_, err := Install(t.Context(), mustConnect(t, server.Addr, "", ""), InstallOptions{Users: []string{"nobody"}})
	if err == nil || !strings.Contains(err.Error(), "there is no user or role nobody") {
		t.Errorf("%v", err)
	}
	did, err := Install(t.Context(), mustConnect(t, server.Addr, "", ""), InstallOptions{DryRun: true})
	if err != nil || !slices.Contains(did, "created function cinch_get") {
		t.Errorf("it was installed in part: %q, %v", did, err)
	}
}

// A function that another user created under one of Cinch's names could be changed by that user later, while
// others call it with their rights. So Install replaces it.
func TestInstallOwner(t *testing.T) {
	server := testenv.Tarantool(t, `
		box.schema.user.create('mallory', {password = 'secret', if_not_exists = true})
		box.schema.user.grant('mallory', 'create', 'function', nil, {if_not_exists = true})
		box.schema.user.grant('mallory', 'read,write', 'space', '_func', {if_not_exists = true})`)
	c := mustConnect(t, server.Addr, "", "")
	for _, f := range functions() {
		lua(t, c, fmt.Sprintf("box.session.su('mallory', box.schema.func.create, %q, {body = [==[%s]==], setuid = %v})", f...))
	}
	lua(t, c, `box.session.su('admin', box.schema.role.grant, 'public', 'execute', 'function', 'cinch_dictionary_put')`)
	did := install(t, c, InstallOptions{})
	lua(t, c, `assert(not box.space._priv:get{2, 'function', box.space._func.index.name:get('cinch_dictionary_put').id}, 'everyone may add dictionaries')`)
	for _, f := range functions() {
		if !slices.Contains(did, "renewed function "+f[0].(string)) {
			t.Errorf("%s is another user's", f[0])
		}
	}
	if again := install(t, c, InstallOptions{}); len(again) != 0 {
		t.Errorf("did again %q", again)
	}
	install(t, c, InstallOptions{Remove: true})
	lua(t, c, `box.schema.space.create('cinch_records', {user = 'mallory'})`)
	if _, err := Install(t.Context(), c, InstallOptions{}); err == nil || !strings.Contains(err.Error(), "space cinch_records belongs to user mallory") {
		t.Errorf("%v", err)
	}
}
