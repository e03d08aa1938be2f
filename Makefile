# SPDX-License-Identifier: Apache-2.0
# All outputs go to build/. `make help` lists the targets; V=1 shows the commands.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
SHELL := /bin/bash

Q := $(if $(V),,@)
BUILD := build
VENV := $(BUILD)/venv
PYTHON := $(VENV)/bin/python
MACHINE := $(shell uname -m)
MACHINES := x86_64 aarch64
OBJECTS := $(patsubst bpf/%.bpf.c,$(BUILD)/%.bpf.o,$(wildcard bpf/*.bpf.c))
# Every machine's, each in a folder of its name.
ALL_OBJECTS := $(foreach machine,$(MACHINES),$(patsubst $(BUILD)/%,$(BUILD)/$(machine)/%,$(OBJECTS)))
BPF_HEADERS := $(wildcard bpf/*.h bpf/*/*.h bpf/*/*/*.h)
CLANG ?= clang
LLVM_STRIP ?= llvm-strip
# linux/bpf.h needs asm/ of the machine's own architecture, which clang doesn't look for when it compiles for BPF.
MULTIARCH = $(shell $(CLANG) -print-multiarch 2>/dev/null)
TARGET_x86_64 := x86
TARGET_aarch64 := arm64
BPF_CFLAGS = -g -O2 -mcpu=v3 -target bpf -Wall -Wextra -Werror -idirafter /usr/include/$(MULTIARCH) -Ibpf -ffile-compilation-dir=. -D__TARGET_ARCH_$(TARGET_$1)
PREFIX ?= /usr/local
# pip takes what requirements/ names with these hashes, and runs none of its code.
LOCKED := -q --disable-pip-version-check --require-hashes --only-binary :all:

.PHONY: help
help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: all
all: deps bpf ## everything that running from the checkout needs

.PHONY: deps
deps: ## packages, virtual environment (asks for sudo where it must)
	$(Q)tools/setup

.PHONY: bpf bpf-all
bpf: $(OBJECTS) ## the BPF objects of this machine
	@:
bpf-all: $(ALL_OBJECTS) ## those of x86-64 and aarch64, for packages
	@:

# For the machine that is named: no header of that machine's own is needed.
define compile
$(Q)mkdir -p $(@D)
@echo "==> compiling $<$(if $(filter $1,$(MACHINE)),, for $1)"
$(Q)$(CLANG) $(call BPF_CFLAGS,$1) -c $< -o $@.unstripped
$(Q)$(LLVM_STRIP) -g $@.unstripped -o $@ && rm $@.unstripped
endef
$(BUILD)/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(call compile,$(MACHINE))
$(BUILD)/x86_64/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(call compile,x86_64)
$(BUILD)/aarch64/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(call compile,aarch64)

.PHONY: demo
demo: ## attach to a real nginx under load and show where its handshakes' time goes, in one command
	$(Q)tools/setup run
	$(Q)tools/demo

# Which kernels `make test-kernels` boots: ci (Debian 12's own and the newest of the mirror), all, or names as 6.12,newest;
# CHECKS="reload,nothing left" for some of the checks only. GUEST: their architecture by Debian's name, else this machine's own.
KERNELS ?= ci
kernels_named = $(if $(filter ci,$(KERNELS)),6.1 newest,$(filter-out all,$(subst $(comma), ,$(KERNELS))))
comma := ,

# PYTEST='-k reload --lf': options of pytest for test-unit, test-bpf and test-live.
.PHONY: test test-quick test-unit test-deploy test-bpf test-live test-kernels
test: ## all tests that this machine can run
	$(Q)tools/for-tests/setup $(kernels_named)
	$(Q)$(MAKE) bpf lint check-abi
	$(Q)$(MAKE) $(FUZZER)/.made || echo "==> atheris can't be installed: fuzzing will be left out"
	$(Q)$(PYTHON) tests/run.py unit fuzz deploy bpf live kernels
test-quick: bpf ## the inner loop, three to four minutes on two slow processors: lint, the quick pure tests, one of each kind of live test
	$(Q)$(MAKE) lint
	$(Q)$(PYTHON) tests/run.py quick
test-unit: ## no root, no kernel, no clang
	$(Q)$(PYTHON) tests/run.py unit $(PYTEST)
test-deploy: ## the unit, the DaemonSet and the Debian package, without installing them
	$(Q)$(PYTHON) tests/run.py deploy $(PYTEST)
test-bpf: bpf ## every BPF program passes the verifier and attaches
	$(Q)$(PYTHON) tests/run.py bpf $(PYTEST)
test-live: bpf ## real servers, exact counts
	$(Q)$(PYTHON) tests/run.py live $(PYTEST)
test-kernels: bpf ## other kernels under QEMU; KERNELS=all for every check on all of them (an hour), or by name; GUEST=arm64
	$(Q)tools/for-tests/setup-kernels $(if $(GUEST),--architecture $(GUEST)) $(kernels_named)
	$(Q)$(if $(GUEST),SSLLATENCY_GUEST=$(GUEST)) SSLLATENCY_KERNELS=$(KERNELS) SSLLATENCY_CHECKS="$(CHECKS)" $(PYTHON) tests/run.py kernels

.PHONY: kernels-table corpus sweep pictures dashboard
kernels-table: ## the tables of docs/use/kernels.md, from what the guests found last; KEEP=1 keeps what they say of checks without results here
	$(Q)$(PYTHON) -m tests.kernels.table --write $(if $(KEEP),--keep)
corpus: ## fetch real binaries (1.5 GB) and compare their plans with what is expected; WRITE=1 writes that and the tables of probe-sites.md anew
	$(Q)tools/corpus
	$(Q)PYTHONPATH=python:. $(PYTHON) -m tests.unit.probes.corpus $(if $(WRITE),--write)
pictures: ## those of the documents: by graphviz and a headless Chromium
	$(Q)dot -Tsvg docs/internals/architecture.dot -o docs/internals/architecture.svg
	$(Q)$(PYTHON) tools/pictures
dashboard: ## deploy/grafana/ssllatency.json, from deploy/grafana/dashboard.py
	$(Q)$(PYTHON) -m deploy.grafana.dashboard --write
sweep: ## plan and check every function of nine libraries, about 7 minutes
	$(Q)SSLLATENCY_SWEEP=all $(PYTHON) -m pytest tests/unit/probes/libraries/test_sweep.py

LOCK := $(BUILD)/lock
$(LOCK)/.made: requirements/lock.txt
	@echo "==> installing uv into $(LOCK)"
	$(Q)$(PYTHON) -m pip install $(LOCKED) --upgrade --target $(LOCK) -r $< && touch $@
.PHONY: lock
lock: $(LOCK)/.made ## requirements/*.txt, with hashes of what pip installs, from pyproject.toml; UPGRADE=1 for the newest
	$(Q)$(PYTHON) tools/lock $(if $(UPGRADE),--upgrade)

# atheris (libFuzzer for Python) has wheels for few versions of Python, so it isn't part of the virtual environment.
FUZZER := $(BUILD)/fuzz/packages
$(FUZZER)/.made: requirements/fuzz.txt
	@echo "==> installing atheris into $(FUZZER)"
	$(Q)mkdir -p $(FUZZER)
	$(Q)$(PYTHON) -m pip install $(LOCKED) --upgrade --target $(FUZZER) -r $< && touch $@

.PHONY: fuzz fuzz-keep test-fuzz
SECONDS = 3600
JOBS = 1
fuzz: $(FUZZER)/.made ## look for input that breaks an invariant, SECONDS for each kind (3600), JOBS kinds at once (1)
	$(Q)PYTHONPATH=python:.:$(FUZZER) $(PYTHON) -m tests.fuzz --seconds $(SECONDS) --jobs $(JOBS)
fuzz-keep: ## take inputs that it has found into tests/fuzz/corpus: the fewest that reach what nothing else there reaches
	$(Q)PYTHONPATH=python:. $(PYTHON) -m tests.fuzz.keeping.keep
test-fuzz: $(FUZZER)/.made ## fuzz for three minutes in all, from the inputs that are kept, the same each time, as CI does
	$(Q)$(PYTHON) tests/run.py fuzz

.PHONY: bench bench-arrivals bench-starts bench-memory bench-budget bench-defaults bench-turns bench-go bench-jfr bench-reloads bench-profile bench-export
bench: ## what tracing costs, written to docs/measured, and what bench-memory measures; QUICK=1 only prints, in three minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/run.py $(if $(QUICK),--quick)
	$(if $(QUICK),,$(Q)$(MAKE) bench-memory)
bench-arrivals: ## what it takes to know when peers' bytes arrive, written to docs/measured/arrival-cost.md, in seven minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/arrivals.py -o docs/measured/arrival-cost.md
bench-starts: ## what a start takes, and how soon Ctrl-C ends one, written to docs/measured/starts.md, in two minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/first_starts.py -o docs/measured/starts.md
bench-memory: ## what each command and engine holds, its own memory and the kernel's, written to docs/measured
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/run.py --memory
bench-export: ## what `export` takes of a host with 200 idle processes, written to docs/measured/export-cost.md, in two minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/fleet/export.py -o docs/measured/export-cost.md
ROUNDS = 3
bench-defaults: ## what servers and others keep while a command runs with nothing but a target, in ROUNDS rounds (3: about 20 minutes)
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/defaults/run.py --rounds $(ROUNDS) -o docs/measured/defaults.md
bench-turns: ## what a server and a stranger keep during each command that ends, in many short turns, in half an hour
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/defaults/turns.py -o docs/measured/by-turns.md
bench-go: ## what a handshake, a read and a write of Go's crypto/tls cost more beside OpenSSL's, written to docs/measured/go-cost.md, in ten minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/defaults/go_cost.py -o docs/measured/go-cost.md
bench-jfr: ## what `handshakes --jfr` costs Java servers beside what `handshakes` costs OpenSSL's, written to docs/measured/jfr-cost.md, in ten minutes
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/defaults/jfr_cost.py -o docs/measured/jfr-cost.md
bench-reloads: ## what is lost when an nginx at full speed is reloaded, by --links shared and process; prints it, in a minute
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/defaults/reloads.py
RUNS = 100
bench-budget: ## what --budget keeps of a server's requests, and how often its estimates hold, in RUNS runs (100), written to docs/measured/budget.md
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/budget/run.py --runs $(RUNS) -o docs/measured/budget.md
bench-profile: ## where the time of a hit goes, by samples of perf, written to docs/measured/profile.md
	$(Q)tools/setup
	$(Q)$(MAKE) bpf
	$(Q)$(PYTHON) bench/profile/run.py -o docs/measured/profile.md

PYTHON_FILES := python tests bench tools/corpus tools/demo tools/for-tests/foreign-libraries tools/lock tools/pictures bpf/generate_abi.py hatch_build.py install deploy examples/side_by_side.py
C_FILES := $(wildcard bpf/*.[ch] bpf/*/*.[ch] bpf/*/*/*.[ch] bench/*/*.c examples/*/*.[ch] tests/*/*.[ch] tests/*/*/*.[ch])
SHELL_FILES := .ci/run deploy/stage deploy/krew/kubectl-ssllatency deploy/*/build $(wildcard deploy/debian/*.p*) install/launcher install/system $(filter-out %.bt,$(wildcard tools/ssl*)) tools/setup $(filter-out %/foreign-libraries,$(wildcard tools/for-tests/*)) tests/kernels/guest/init tests/kernels/guest/initrd-init tools/debian-mirror examples/common.sh examples/recorded/take examples/tomcat/jsse $(wildcard examples/*/*.sh examples/*/run)
.PHONY: fmt lint
fmt: ## format the sources
	$(Q)$(VENV)/bin/ruff format -q $(PYTHON_FILES)
	$(Q)clang-format -i $(C_FILES)
LINT := lint-ruff lint-mypy lint-rules lint-layers lint-c lint-shell
# Tests that read all sources: whether what is imported is there, how modules, names and docstrings are made, which paths are opened.
RULES := $(addprefix tests/unit/,test_imports.py test_architecture.py test_asserted_times.py test_opened_paths.py)
.PHONY: $(LINT)
lint: ## ruff, mypy, clang-format, shellcheck, and the project's own rules
	@[ -x $(VENV)/bin/ruff ] || { echo "what checks the sources isn't here: run tools/for-tests/setup first (make test does)" >&2; exit 1; }
	@echo "==> lint"
	$(Q)$(MAKE) -j --output-sync=target $(LINT)
lint-ruff:
	$(Q)$(VENV)/bin/ruff check -q $(PYTHON_FILES)
	$(Q)$(VENV)/bin/ruff format -q --check $(PYTHON_FILES)
lint-mypy:
	$(Q)$(VENV)/bin/mypy
	$(Q)$(VENV)/bin/mypy --config-file .ci/mypy.ini
lint-rules:
	$(Q)PYTHONPATH=python:. $(PYTHON) -m pytest -q --no-header -p no:cacheprovider -p no:xdist $(RULES) >$(BUILD)/rules.log || { cat $(BUILD)/rules.log; false; }
lint-layers:
	$(Q)PYTHONPATH=python $(VENV)/bin/lint-imports --no-cache >$(BUILD)/lint-imports.log || { cat $(BUILD)/lint-imports.log; false; }
lint-c:
	$(Q)clang-format --dry-run -Werror $(C_FILES)
lint-shell:
	$(Q)shellcheck $(SHELL_FILES)

.PHONY: abi check-abi
abi: $(OBJECTS) ## python/ssllatency/abi.py from the objects' BTF
	$(Q)python3 bpf/generate_abi.py $(OBJECTS) >$(BUILD)/abi.py && mv $(BUILD)/abi.py python/ssllatency/abi.py
check-abi: $(ALL_OBJECTS) ## whether abi.py is what the objects' BTF says, on every machine
	$(Q)for machine in $(MACHINES); do \
	  python3 bpf/generate_abi.py $(BUILD)/$$machine/*.bpf.o | diff -u python/ssllatency/abi.py - || { echo "abi.py has drifted: make abi"; exit 1; }; \
	done

# What an installation has beside the package, in the folders where it belongs.
SHORT_COMMANDS := $(filter-out tools/ssllatency %.bt,$(wildcard tools/ssl*))
DOCUMENTS := $(wildcard *.md docs/*.md docs/*/*.md docs/schema/*.json docs/pictures/*.png) LICENSE
.PHONY: prefix
prefix: ## man pages, completion, documents, scripts, in build/prefix
	$(Q)rm -rf $(BUILD)/prefix && mkdir -p $(BUILD)/prefix/bin $(BUILD)/prefix/share/doc/ssllatency
	$(Q)cp $(SHORT_COMMANDS) $(wildcard tools/*.bt) $(BUILD)/prefix/bin
	$(Q)cp --parents $(DOCUMENTS) $(BUILD)/prefix/share/doc/ssllatency
	$(Q)PYTHONPATH=python:.$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m install.manpages $(BUILD)/prefix/share/man/man1
	$(Q)PYTHONPATH=python:.$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m install.completion $(BUILD)/prefix/share

WHEEL_SOURCES := pyproject.toml hatch_build.py $(DOCUMENTS) $(shell find python bpf tools install -type f ! -name '*.pyc')
.PHONY: wheel
wheel: $(BUILD)/wheels/.made ## the package and what it needs as wheels, in build/wheels (asks pip's index)
# pip would fetch what builds a wheel without hashes, so it is here already.
WHEEL_TOOLS := $(BUILD)/wheel-tools
$(WHEEL_TOOLS)/.made: requirements/wheel.txt
	$(Q)rm -rf $(@D)
	$(Q)$(PYTHON) -m pip install $(LOCKED) --target $(@D) -r $<
	$(Q)touch $@
$(BUILD)/wheels/.made: $(ALL_OBJECTS) $(WHEEL_SOURCES) $(WHEEL_TOOLS)/.made requirements/run.txt
	@echo "==> building the wheel"
	$(Q)rm -rf $(BUILD)/wheels
	$(Q)$(PYTHON) -m pip download $(LOCKED) --dest $(BUILD)/wheels -r requirements/run.txt
	$(Q)PYTHONPATH=$(CURDIR)/$(WHEEL_TOOLS) $(PYTHON) -m pip wheel -q --disable-pip-version-check --no-index --no-deps \
	  --no-build-isolation --wheel-dir $(BUILD)/wheels .
	$(Q)touch $@

.PHONY: install uninstall
install: wheel ## commands, scripts, man pages, completion, docs, under PREFIX (/usr/local) and DESTDIR
	$(Q)install/system put $(PYTHON) $(BUILD) "$(DESTDIR)$(PREFIX)"
uninstall: ## remove them
	$(Q)install/system remove "$(DESTDIR)$(PREFIX)"

# Packages and the image, in build/packages. MAINTAINER: whom they name.
PACKAGES := $(BUILD)/packages
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' python/ssllatency/__init__.py)
MAINTAINER ?= $(shell git log -1 --format='%cn <%ce>' 2>/dev/null || echo 'nobody <nobody@localhost>')
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
DEPLOY_SOURCES := $(shell find deploy -type f ! -name '*.pyc') install/system install/launcher
# What `export` sends OTLP with: the packages bring it, as distributions have none of it, or too old a one.
$(PACKAGES)/wheels/.made: requirements/packages.txt
	$(Q)rm -rf $(@D)
	$(Q)$(PYTHON) -m pip download $(LOCKED) --dest $(@D) -r $<
	$(Q)touch $@
$(PACKAGES)/staged/.made: $(BUILD)/wheels/.made $(PACKAGES)/wheels/.made $(DEPLOY_SOURCES)
	$(Q)deploy/stage $(PYTHON) $(BUILD) $(PACKAGES)/wheels $(PACKAGES)/staged/root
	$(Q)touch $@

.PHONY: deb rpm image test-packages
deb: $(PACKAGES)/staged/.made ## the Debian package of this machine's architecture, in build/packages
	$(Q)rm -f $(PACKAGES)/*.deb
	$(Q)deploy/debian/build $(PACKAGES)/staged/root $(VERSION) "$(MAINTAINER)" $(PACKAGES)
	@ls $(PACKAGES)/*.deb
rpm: $(PACKAGES)/staged/.made ## the RPM of this machine's architecture, in build/packages
	$(Q)rm -f $(PACKAGES)/*.rpm
	$(Q)deploy/rpm/build $(PACKAGES)/staged/root $(VERSION) "$(MAINTAINER)" $(PACKAGES)
	@ls $(PACKAGES)/*.rpm
# SUITE: the Debian that the image is made of.
SUITE ?= trixie
image: deb ## a container image as an OCI archive, of the Debian package and what it needs; pulls no other image, takes root
	$(Q)deploy/image/build $(PACKAGES)/*.deb $(SUITE) ssllatency:$(VERSION) $(PACKAGES)
	@ls $(PACKAGES)/*.tar
test-packages: deps ## build, install and run each in a clean root, or as a container; takes root and ten minutes
	$(Q)tools/for-tests/setup-packages
	$(Q)$(MAKE) deb rpm image
	$(Q)$(PYTHON) -m pytest tests/packages $(PYTEST)

.PHONY: clean
clean: ## remove what was built
	$(Q)rm -rf $(BUILD)
	$(Q)find bench examples install python tests -name __pycache__ -prune -exec rm -rf {} +
