package redis

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

const behindTest = "redis://10.0.0.1:6379"

func withBehind(c *Config) { c.UpstreamURL = behindTest }

// The gateway answers the command at its position in the pipeline, whatever replies are outstanding. A server does not
// know the command.
func TestGatewayCommand(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, _ := startGateway(t, sock, withBehind)
	says := string(resp.AppendGateway(nil, "test", behindTest))
	const unknown = "-ERR unknown command 'Cinch.Gateway', with args beginning with: \r\n"
	for _, test := range []struct{ send, want string }{
		{"SET k v\r\nGET k\r\nCinch.Gateway\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n" + says + "$1\r\nv\r\n"},
		{"CINCH.GATEWAY\r\ncinch.gateway\r\nECHO x\r\n", says + says + "$1\r\nx\r\n"},
		{"*1\r\n$13\r\nCINCH.GATEWAY\r\nECHO x\r\n", says + "$1\r\nx\r\n"},
		{"CLIENT REPLY SKIP\r\nCINCH.GATEWAY\r\nECHO x\r\n", "$1\r\nx\r\n"},
		{"MULTI\r\nCinch.Gateway\r\nEXEC\r\n", "+OK\r\n" + unknown + "-EXECABORT Transaction discarded because of previous errors.\r\n"},
		{"Cinch.Gateway x\r\nECHO x\r\n", "-ERR unknown command 'Cinch.Gateway', with args beginning with: 'x' \r\n$1\r\nx\r\n"},
	} {
		c := dialRaw(t, front)
		write(t, c, test.send)
		readExactly(t, c, test.want)
	}
	expect(t, clientOf(t, front, func(o *goredis.Options) { o.Protocol = 3 }), "CINCH.GATEWAY", "[cinch.gateway test "+behindTest+"]")
	c := dialRaw(t, sock)
	write(t, c, "Cinch.Gateway\r\n")
	readExactly(t, c, unknown)
}

// If the server requires a login, only clients that have logged in are told the server's URL. The user needs no rights
// for the command.
func TestGatewayCommandBeforeLogin(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	expect(t, clientOf(t, sock, as("", "secret")), "ACL SETUSER nothing on >pw -@all", "OK")
	front, _ := startGateway(t, sock, withBehind)
	says, hides := string(resp.AppendGateway(nil, "test", behindTest)), string(resp.AppendGateway(nil, "test", ""))
	for _, test := range []struct{ send, want string }{
		{"CINCH.GATEWAY\r\n", hides},
		{"AUTH wrong\r\nCINCH.GATEWAY\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n" + hides},
		{"AUTH secret\r\nCINCH.GATEWAY\r\n", "+OK\r\n" + says},
		{"AUTH nothing pw\r\nCINCH.GATEWAY\r\n", "+OK\r\n" + says},
		{"AUTH secret\r\nRESET\r\nCINCH.GATEWAY\r\n", "+OK\r\n+RESET\r\n" + hides},
	} {
		c := dialRaw(t, front)
		write(t, c, test.send)
		readExactly(t, c, test.want)
	}
}
