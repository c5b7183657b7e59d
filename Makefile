# All targets need Rust. Targets that start a control plane need Go as well, for its first build.
CARGO ?= cargo
BIN := $(or $(CARGO_TARGET_DIR),target)/debug
PROFILE ?= fast
SIMULATOR := $(or $(CARGO_TARGET_DIR),target)/$(PROFILE)/capstan-sandbox
SIMULATE := $(SIMULATOR) simulate
SEEDS ?= 100000
FROM ?= 0
# The tests whose sources do not start a control plane.
FAST_TESTS := $(shell for test in tests/*.rs tests/*/main.rs; do test=$${test%/main.rs}; \
	grep -rqE 'ControlPlane::(start|shared)' $$test || printf ' --test %s' "$$(basename $${test%.rs})"; done)

# Most tests with an API server wait for it, so at least four tests run at once.
TEST_THREADS := $(shell cores=$$(nproc 2>/dev/null || echo 4); echo $$((cores > 4 ? cores : 4)))

# Tests that compute for most of their time, optimised: unoptimised, they take ten times as long.
# The laws of the conversion run CONVERSION_RUNS machines for each platform and direction.
OPTIMIZED := $(CARGO) test --quiet --locked --profile $(PROFILE) --package
LAWS := $(OPTIMIZED) capstan-core --test conversion laws::
# All other tests: the second pattern leaves out the test target `simulation`.
OTHER_TESTS := --lib --bins --test '[!s]*' --test 's[!i]*'

.PHONY: help build run test test-programs test-simulated test-long test-fast simulate simulate-sets simulate-faults simulator mutants kube lint fmt deny bench fuzz image pictures release

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: build ## Start a local cluster with Capstan and show a tour; CONTEXT=name uses an existing cluster, TOUR=kubeadm shows a KubeadmControlPlane
	@exec $(BIN)/capstan-sandbox run $(if $(CONTEXT),--context '$(CONTEXT)') $(if $(ADDRESS),--address '$(ADDRESS)') \
		$(if $(TOUR),--tour '$(TOUR)')

# One call builds both packages. Separate calls would build common dependencies twice, because their
# features differ.
build:
	@$(CARGO) build --locked --package capstan --package capstan-sandbox --bins

# With MAKE itself in the line, `make --dry-run` would run the tests.
NESTED_MAKE := $(MAKE) --no-print-directory

# The simulation runs while tests wait for servers, at the lowest priority, so that the tests do not
# wait for it. The builds run side by side, because that of the simulator ends with large crates,
# each of which one core compiles.
test: ## Run all tests with a real API server, and the seeded bugs in simulations
	@$(NESTED_MAKE) simulator & simulator=$$!; $(NESTED_MAKE) test-programs && wait $$simulator
	@nice -n 19 $(NESTED_MAKE) test-simulated & simulated=$$!; trap "kill $$simulated" INT TERM; \
		RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$(TEST_THREADS)} $(CARGO) test --workspace --locked $(OTHER_TESTS); tests=$$?; \
		wait $$simulated && exit $$tests

# One build for the tests and the programs that they start. The features of many dependencies differ
# with and without tests, so that `build` would compile these dependencies a second time.
test-programs: ## Build the tests, the control plane, and the components of other projects
	@$(CARGO) build --workspace --all-targets --locked
	@$(BIN)/capstan-sandbox kube
	@$(BIN)/capstan-sandbox neighbours

test-simulated: simulator ## Run what `make test` simulates
	$(OPTIMIZED) capstan-sandbox --test simulation
	CONVERSION_RUNS=10000 $(LAWS)
	$(SIMULATE)-control-planes --scenario both --exhaustive
	$(SIMULATE)-control-planes --mutants --seeds 40
	$(SIMULATE)-both-apis --mutants --seeds 60
	$(SIMULATE)-machine-pools --seeds 50
	$(SIMULATE)-machine-pools --mutants --seeds 200
	$(SIMULATE)-kubeadm --mutants --seeds 200

simulate-faults: simulator ## Simulate every single fault at every write of each scenario
	$(SIMULATE) --exhaustive

simulate: simulator ## Simulate the controllers: SEEDS=100000 FROM=0; PROFILE=release for millions of seeds
	$(SIMULATE) --digest --seeds 16 | diff sandbox/tests/simulation/traces.txt -
	$(SIMULATE) --coverage | diff docs/simulation-coverage.md -
	@$(NESTED_MAKE) simulate-sets
	$(SIMULATE) --scenario melee --from $(FROM) --seeds $$((($(SEEDS) + 39) / 40))
	$(SIMULATE) --scenario neighbours --from $(FROM) --seeds $$((($(SEEDS) + 39) / 40))
	$(SIMULATE) --scenario corners --from $(FROM) --seeds $$((($(SEEDS) + 39) / 40))
	$(SIMULATE)-control-planes --from $(FROM) --seeds $$((($(SEEDS) + 49) / 50))
	$(SIMULATE)-control-planes --scenario own-members --from $(FROM) --seeds $$((($(SEEDS) + 99) / 100))
	$(SIMULATE)-both-apis --from $(FROM) --seeds $$((($(SEEDS) + 24) / 25))
	$(SIMULATE)-machine-pools --from $(FROM) --seeds $$((($(SEEDS) + 59) / 60))
	$(SIMULATE)-kubeadm --from $(FROM) --seeds $$((($(SEEDS) + 49) / 50))

simulate-sets: simulator ## Simulate sets only: SEEDS=100000 FROM=0
	$(SIMULATE) --from $(FROM) --seeds $(SEEDS)

MUTANTS := $(or $(CARGO_TARGET_DIR),target)/generated-mutants
mutants: simulator ## Change each point of the decisions, and hunt the changes: ROUNDS=10 AGAIN=1 SAMPLE=40
	$(SIMULATOR) generated-mutants --folder $(MUTANTS) --profile $(PROFILE) \
		--rounds $(or $(ROUNDS),10) $(if $(AGAIN),--again) $(if $(SAMPLE),--sample $(SAMPLE))

simulator:
	@$(CARGO) build --locked --profile $(PROFILE) --package capstan-sandbox --bin capstan-sandbox

test-long: kube ## Run the steady-state test for ten minutes instead of one
	CAPSTAN_STEADY_SECONDS=600 $(CARGO) test --locked --package capstan --test rollout -- a_steady_state --nocapture

test-fast: ## Run the tests that need no API server
	$(CARGO) test --locked --package capstan-core --package capstan-sandbox --lib --bins
	$(CARGO) test --locked --package capstan --lib --bins $(FAST_TESTS)

kube: build ## Find the binaries of the control plane, or build them once
	@$(BIN)/capstan-sandbox kube

lint: ## Check format and lints as CI does
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

DENY ?= advisories bans licenses sources
deny: ## Check licences, advisories and sources of the dependencies
	$$(.ci/cargo-deny) --locked check --hide-inclusion-graph $(DENY)

bench: ## Compare the server with a null server; the result is target/bench/summary.json
	$(CARGO) build --release --locked --package capstan --bin capstan --features bench \
		--package capstan-sandbox --bin capstan-sandbox
	$(or $(CARGO_TARGET_DIR),target)/release/capstan-sandbox bench

IMAGE ?= ghcr.io/capstan-dev/capstan:$(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE_PROFILE ?= release
# amd64 or arm64. For the other architecture than that of this machine, Debian's cross compiler, its
# libraries, and the standard library of Rust are needed; image/packages.sh installs them.
HOST_ARCH := $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(shell uname -m)))
ARCH ?= $(HOST_ARCH)
RUST_ARCH := $(patsubst arm64,aarch64,$(patsubst amd64,x86_64,$(ARCH)))
IMAGE_TARGET := $(if $(filter-out $(HOST_ARCH),$(ARCH)),$(RUST_ARCH)-unknown-linux-gnu)
IMAGE_ROOT := $(or $(CARGO_TARGET_DIR),target)/image-$(ARCH)
IMAGE_BINARY := $(or $(CARGO_TARGET_DIR),target)/$(if $(IMAGE_TARGET),$(IMAGE_TARGET)/)$(patsubst dev,debug,$(IMAGE_PROFILE))/capstan
# How cargo and the C compiler build for the other architecture.
image: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER ?= aarch64-linux-gnu-gcc
image: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER ?= $(if $(IMAGE_TARGET),x86_64-linux-gnu-gcc,cc)
image: ## Build the image IMAGE with buildah for ARCH, amd64 or arm64, without pulling anything
	image/packages.sh $(if $(IMAGE_TARGET),$(RUST_ARCH))
	$(CARGO) build --profile $(IMAGE_PROFILE) --locked $(if $(IMAGE_TARGET),--target $(IMAGE_TARGET)) \
		--package capstan --bin capstan
	rm -rf $(IMAGE_ROOT)
	image/root-file-system.sh $(IMAGE_BINARY) $(IMAGE_ROOT) $(if $(IMAGE_TARGET),/usr/$(RUST_ARCH)-linux-gnu/lib)
	buildah build --pull-never --arch $(ARCH) --file Containerfile --tag '$(IMAGE)-$(ARCH)' $(IMAGE_ROOT)
	if [ '$(ARCH)' = '$(HOST_ARCH)' ]; then buildah tag '$(IMAGE)-$(ARCH)' '$(IMAGE)'; fi

PICTURES := rollout both-apis kubeadm-control-plane
pictures: build ## Draw the pictures of the documentation from tests/fixtures/pictures
	@for picture in $(PICTURES); do $(BIN)/capstan status -o svg --now 2026-06-01T12:00:00Z \
		-f tests/fixtures/pictures/$$picture.yaml > docs/pictures/live-$$picture.svg || exit 1; done

RELEASE := $(or $(CARGO_TARGET_DIR),target)/release-files
RELEASE_ARCHS ?= amd64 arm64
RELEASE_IMAGES := $(or $(CARGO_TARGET_DIR),target)/release-images
release: build ## Write manifests, chart, bundle, binary, images, SBOM, provenance and checksums of a release
	$(CARGO) build --release --locked --package capstan --bin capstan
	rm -rf $(RELEASE) $(RELEASE_IMAGES)
	mkdir -p $(RELEASE_IMAGES)
	for arch in $(RELEASE_ARCHS); do $(MAKE) image ARCH=$$arch IMAGE_PROFILE=release && \
		buildah push --quiet '$(IMAGE)'-$$arch oci-archive:$(RELEASE_IMAGES)/capstan-$$arch.oci.tar || exit 1; done
	$(BIN)/capstan-sandbox release --capstan $(or $(CARGO_TARGET_DIR),target)/release/capstan \
		$(foreach arch,$(RELEASE_ARCHS),--file $(RELEASE_IMAGES)/capstan-$(arch).oci.tar) --out $(RELEASE)

RUNS ?= 20000
fuzz: ## Run every fuzz target RUNS times, and convert a million machines for RUNS=20000
	FUZZ_RUNS=$(RUNS) $(CARGO) test --quiet --locked --package capstan-core --package capstan --test fuzz -- --nocapture
	CONVERSION_RUNS=$$(($(RUNS) * 3)) $(LAWS)
