package main

// way is how records are written and read.
type way struct {
	name    string
	client  string // a mode of client.py, or of this program
	python  bool
	gateway bool
	sealed  bool   // by Cinch, so that the server has dictionary and policy
	base    string // the way with the same client that compresses nothing
}

const (
	plainGo     = "go-redis"
	plainGlide  = "Valkey GLIDE"
	plainDjango = "django-redis"
)

// ways begin with one whose server has no dictionary: what the others hold without values is compared with that.
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
