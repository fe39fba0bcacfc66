# SPDX-License-Identifier: Apache-2.0
#
# The front door. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

# How many packages' tests run at a time. A simulation keeps about one
# processor busy (its thread and the host's take turns), a cold build of one both.
TEST_P ?= 2
# The packages that take longest come first, so that none runs alone at the end.
# vipl, which has limits of wall time, comes after the first builds. vet is part
# of lint.
TESTS := -count=1 -vet=off -p $(TEST_P) ./tools/hvia ./sim/unit/card ./vipl ./conformance/random ./...
# Arguments for `hvia reproduce`, `hvia demo` and `hvia digests`, for example ARGS='--sizes 4,64'.
ARGS ?=

# The commit goes into the tool where git can tell it. Git refuses checkouts of
# another owner; that must not stop the build.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

STATICCHECK := go tool -modfile=go.tools.mod staticcheck

.PHONY: help setup setup-tests build test test-long mutants lint lint-format lint-go lint-rtl lint-builder lint-shell lint-generated count reproduce digests demo doctor generate docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing (apt; Go is only checked)
	@tools/setup.sh

setup-tests: ## the same, and what only the tests need
	@tools/setup.sh --tests

build: ## bin/hvia and the simulator
	@CGO_ENABLED=0 go build -buildvcs=$(VCS) -o bin/hvia ./tools/hvia
	@bin/hvia build >/dev/null

reproduce: setup build ## the paper's measurements: table on stdout, page and figures in out/reproduce/report.html
	@bin/hvia reproduce $(ARGS)

digests: setup build ## frames, wakes and printed times of many runs, compared with bench/digests/testdata/digests.json; ARGS=--update writes it anew
	@bin/hvia digests $(ARGS)

demo: setup build ## one RDMA write, step by step
	@bin/hvia demo $(ARGS)

doctor: ## what this machine has and lacks
	@CGO_ENABLED=0 go build -buildvcs=$(VCS) -o bin/hvia ./tools/hvia
	@bin/hvia doctor

test: setup-tests lint ## what CI runs: setup, lint, all tests
	go test -timeout 40m $(TESTS)

test-long: setup-tests lint lint-builder ## the same tests at full size
	HVIA_LONG=1 go test -timeout 2h $(TESTS)

mutants: setup ## inject known bugs and check that the tests catch every one
	HVIA_MUTANTS=1 go test -count=1 -p $(TEST_P) -timeout 30m -run 'Mutant|Fault|WrongByte' -skip '^(TestFaultMatrix|TestMemoryFault|TestNoFault)' ./sim/... ./att/... ./driver/internal/softvia ./vipl/... ./conformance/... ./bench/...

lint: lint-format lint-go lint-generated lint-shell lint-rtl ## all static checks
	@echo "lint: clean"

# gofmt reads the file system, not packages, so that files behind build tags
# are checked too.
lint-format: ## gofmt
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './build/*' -not -path './out/*')); \
	if [ -n "$$unformatted" ]; then printf 'lint: not formatted, run gofmt -w on:\n%s\n' "$$unformatted" >&2; exit 1; fi

lint-go: ## vet, staticcheck, go.mod
	@go vet ./...
	@$(STATICCHECK) ./...
	@go mod tidy -diff
	@go mod verify >/dev/null

lint-generated: ## generated files are what their tables give
	@go test -count=1 ./layout/internal/render ./params/internal/render >/dev/null || \
	{ go test -count=1 ./layout/internal/render ./params/internal/render >&2; echo "lint: generated files differ: run 'make generate'" >&2; exit 1; }

lint-rtl: ## Verilator -Wall and Yosys over every module, also at 64 bits; no delays
	@go run ./tools/lint/rtllint

lint-builder: setup ## Verilator -Wall with the version that builds the simulators
	@go run ./tools/lint/rtllint -builder

lint-shell: ## shellcheck, where it is installed
	@if command -v shellcheck >/dev/null; then shellcheck tools/setup.sh .ci/run; fi

count: ## lines of code, words of comments and pages, exported names, what is over a limit
	@go run ./tools/house/count

generate: ## write the files that come from layout/ and params/
	@go generate ./layout ./params

docs: setup ## write the pasted outputs and the figure of README and docs anew
	@HVIA_UPDATE=1 go test -count=1 ./tools/hvia -run TestDocsOutputs

clean: ## remove everything that is built or written here
	@rm -rf bin build out
