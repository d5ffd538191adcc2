# Everything here works on a fresh machine with Go and make. Real servers are found, started
# or downloaded by ./test/env.

ENV      := go run ./test/env
MODULES  := ./... ./test/... ./test/peers/... ./examples/...
LIBRARY  := ./dedup/... ./store/... ./consumer/... ./outbox/... ./internal/... ./migrations/... ./cmd/...
TAGS     := -tags failpoint
FUZZTIME ?= 10s
ARGS     ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what there is to make
	@grep -E '^[a-z/]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Kill workers and do the books (ARGS='--seed 2 --messages 5000')
	@$(ENV) -- go run ./examples/orders $(ARGS)

.PHONY: test
test: ## Run every test against real servers
	$(ENV) -- go test $(TAGS) -timeout 10m $(MODULES)

.PHONY: race
race: ## Run the tests of the library under the race detector
	@command -v gcc >/dev/null || command -v clang >/dev/null || { echo "make race: the race detector needs a C compiler (Debian: apt-get install gcc libc6-dev)"; exit 1; }
	$(ENV) -- go test $(TAGS) -race -timeout 10m $(LIBRARY) ./test/e2e/... ./test/crash/...

.PHONY: crash
crash: ## Kill workers at each failpoint
	$(ENV) -- go test $(TAGS) -count=1 -v ./test/crash/...

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (10s)
	@for package in $$(go list $(LIBRARY)); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## Measure what oncebox costs, on a durable Postgres
	@$(ENV) -postgres -durable -- go run ./test/bench $(ARGS)

.PHONY: bench/outbox
bench/outbox: ## Measure the outbox: what sending costs, and the relay beside Watermill's forwarder
	@$(ENV) -postgres -durable -- sh -c 'go run ./test/bench -connections 16 && go run ./test/peers/relay $(ARGS)'

.PHONY: order
order: ## Try to make the outbox lose, double or reorder (ARGS='-messages 1000000')
	@$(ENV) -- go run $(TAGS) ./test/order $(ARGS)

.PHONY: check
check: format vet static test race ## Everything that must pass before a change lands

.PHONY: format
format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }

.PHONY: vet
vet:
	go vet $(TAGS) $(MODULES)

.PHONY: static
static: .bin/staticcheck
	.bin/staticcheck $(TAGS) $(MODULES)

.bin/staticcheck: tools/go.mod
	cd tools && GOWORK=off go build -o ../.bin/staticcheck honnef.co/go/tools/cmd/staticcheck

.PHONY: lint
lint: ## Run golangci-lint (it takes a quarter of an hour to build the first time)
	cd tools/lint && GOWORK=off go build -o ../../.bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	.bin/golangci-lint run --build-tags failpoint $(MODULES)

.PHONY: fmt
fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

.PHONY: tidy
tidy: ## Tidy every module
	@for module in . test test/peers examples tools tools/lint; do (cd $$module && echo "tidy $$module" && GOWORK=off go mod tidy) || exit 1; done
	go work sync
