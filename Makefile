# Three modules: the product, its codecs, and libzstd through cgo.
MODULES = . codec codec/libzstd

.PHONY: build test race lint fuzz ci

build: ; go build -o cinch ./cmd/cinch
test: ; rc=0; for m in $(MODULES); do (cd $$m && go test -timeout 20m ./...) || rc=1; done; exit $$rc
race: ; test/race
lint: ; test/lint $(MODULES)
fuzz: ; test/fuzz $(MODULES)
ci: ; bash .ci/run
