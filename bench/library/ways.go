package main

// way describes how records are written and read.
type way struct {
	name    string
	client  string // a mode of client.py, or of this program
	python  bool
	gateway bool
	sealed  bool   // by Cinch: the server has dictionary and policy
	base    string // the way with the same client, without compression
}

const (
	plainGo     = "go-redis"
	plainGlide  = "Valkey GLIDE"
	plainDjango = "django-redis"
)

// ways lists the ways. The server of the first has no dictionary, so the difference to its size without values is what
// a dictionary and a policy take.
var ways = []way{
	{name: plainGo, client: modePlain, base: plainGo},
	{name: "go-redis, gateway", client: modePlain, gateway: true, sealed: true, base: plainGo},
	{name: "go-redis, cinchredis", client: modeHook, sealed: true, base: plainGo},
	{name: "go-redis, cinchredis with libzstd", client: modeLibzstd, sealed: true, base: plainGo},
	{name: plainGlide, client: "glide-off", python: true, base: plainGlide},
	{name: "Valkey GLIDE, zstd", client: "glide-zstd", python: true, base: plainGlide},
	{name: plainDjango, client: "django", python: true, base: plainDjango},
	{name: "django-redis, zstd", client: "django-zstd", python: true, base: plainDjango},
}
