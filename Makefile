# One command each: make demo · test · test-full · test-clients · sanitize · fuzz · aarch64 · versions · lint · format ·
#                bench · build · clean.
# Needs Python 3.11 (pip, venv), make and g++; everything else is installed into .venv, pinned.
#
#   TORCH_SPEC, TORCH_INDEX_ARGS   which torch: TORCH_INDEX_ARGS="--index-url https://download.pytorch.org/whl/cpu" is the CPU build
#   PYTHON, VENV, JOBS             the interpreter, where .venv goes, parallel compile jobs
#   ARGS                           more arguments for pytest or the bench: make test ARGS="-k autocast -x"
SHELL := /bin/bash
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach p,python3.11 python3,$(if $(shell command -v $(p)),$(p))))
VENV ?= .venv
TORCH_SPEC ?= torch==2.13.0
TORCH_INDEX_ARGS ?=
JOBS ?= $(shell nproc)
ARGS ?=

BIN := $(VENV)/bin
BUILD := build/make
ROOMS := cann ops softnpu torch_npu migrate cmake tools/codegen
# The build is repeated when one of these changes (the compiler's own dependency tracking then decides what is rebuilt).
INPUTS := CMakeLists.txt pyproject.toml \
          $(shell find $(ROOMS) -type f ! -name '*.pyc' ! -name '*.md' ! -path '*/.*' 2>/dev/null)
REQUIREMENTS := requirements/dev.txt requirements/no-deps.txt

.PHONY: help
help:
	@sed -n '1,8s/^# \{0,1\}//p' Makefile

# --- the environment ------------------------------------------------------------------------------------------------
$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info[:2] >= (3, 11), "anycend needs Python 3.11, found " + sys.version'
	$(PYTHON) -m venv $(VENV)

# A change of TORCH_SPEC reinstalls.
$(VENV)/torch-spec: FORCE | $(BIN)/python
	@echo '$(TORCH_SPEC) $(TORCH_INDEX_ARGS)' | cmp -s - $@ || echo '$(TORCH_SPEC) $(TORCH_INDEX_ARGS)' > $@
.PHONY: FORCE
FORCE:

# pip compiles one file after the other, a minute of a processor: all processors do that at the end.
$(VENV)/ready: $(REQUIREMENTS) $(VENV)/torch-spec
	@echo "== installing the pinned requirements into $(VENV)"
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -r requirements/dev.txt
	@echo "== installing $(TORCH_SPEC) $(TORCH_INDEX_ARGS)"
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile $(TORCH_INDEX_ARGS) '$(TORCH_SPEC)' -c requirements/dev.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile --no-deps -r requirements/no-deps.txt
	@$(BIN)/python -m compileall -q -j $(JOBS) -x /py312_ $(abspath $(VENV))/lib || \
	  echo "what is named above is for another Python: it is compiled where it is imported, if ever"
	@touch $@

# --- build ----------------------------------------------------------------------------------------------------------
# The build directory stays, so the second build compiles only what changed.
$(VENV)/installed: $(VENV)/ready $(INPUTS)
	@echo "== building (log lines are ninja's; the first build takes some minutes)"
	PATH="$(abspath $(BIN)):$$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) \
	  $(BIN)/python -m pip install --disable-pip-version-check --verbose --no-build-isolation --no-deps --force-reinstall \
	  --config-settings=build-dir=$(BUILD) --config-settings=cmake.define.ANYCEND_TESTS=APART .
	@touch $@

.PHONY: build
build: $(VENV)/installed

# --- use ------------------------------------------------------------------------------------------------------------
.PHONY: demo
demo: build
	$(BIN)/python examples/quickstart/make_digits.py
	$(BIN)/python -W "ignore:Failed to load image Python extension" examples/quickstart/train.py

# Every example of examples/, one after the other; ColossalAI's packages come from the package index.
.PHONY: examples
examples: build
	PATH="$(abspath $(BIN)):$$PATH" bash examples/all.sh

# Rooms that measure time, wait for limits, start ranks or use all cores themselves run one test after the other; the rest in JOBS processes.
ALONE := tests/chaos tests/distributed tests/faults tests/hccl tests/runtime tests/upstream
# More processes than processors: threads that wait for each other's part of a kernel sleep instead of spinning.
test test-full test-clients: export OMP_WAIT_POLICY ?= PASSIVE
# The clients' environments come from the package index and their runs take minutes: make test-clients. How they are compared needs none.
APART := tests/clients
BESIDE := $(filter-out $(ALONE) $(APART),$(patsubst %/,%,$(sort $(dir $(wildcard tests/*/test_*.py))))) tests/clients/test_client.py

# What a signal cannot end, a wait in C++ that holds the interpreter's lock, ends its process: the test is named and the others go on.
# Later than the longest limit of a test (1500 s), by which a signal ends that test alone.
NO_HANG := -o faulthandler_timeout=1600 -o faulthandler_exit_on_timeout=true

.PHONY: test test-full test-clients test-native
# Both halves run at once: the first mostly waits, and goes before the second, which computes in what is left; not so far before that a
# program of the second gets no processor for minutes while eight ranks of the first compute. What the second says is printed after the first. pytest answers 5 if nothing is selected, which ARGS="-k word" may do to one.
test: test-native
	@trap 'kill $$beside 2>/dev/null' INT TERM; \
	nice -n 5 $(BIN)/pytest -m "not full" $(NO_HANG) -n $(JOBS) --dist worksteal $(BESIDE) $(ARGS) >$(BUILD)/beside.log 2>&1 & beside=$$!; \
	$(BIN)/pytest -m "not full" $(NO_HANG) $(ALONE) $(ARGS); alone=$$?; \
	tail -n +1 -f --pid=$$beside $(BUILD)/beside.log; wait $$beside; beside=$$?; \
	case $$alone-$$beside in 0-0|0-5|5-0) ;; *) exit 1;; esac
test-full: test-native
	$(BIN)/pytest -m "full or not full" $(addprefix --ignore=,$(APART)) $(ARGS)
test-clients: build
	$(BIN)/pytest -m "full or not full" $(APART) $(ARGS)
test-native: build
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cmake --build $(BUILD) --target native_tests -j $(JOBS)
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure

# The software NPU's runtime and its tests under AddressSanitizer with UBSan, then under ThreadSanitizer.
.PHONY: sanitize
sanitize: $(VENV)/ready
	export PATH="$(abspath $(BIN)):$$PATH"; for preset in asan tsan; do \
	  cmake --preset $$preset && cmake --build build/$$preset -j $(JOBS) && \
	  ctest --test-dir build/$$preset --output-on-failure && python -m tests.hccl.sanitized $$preset && \
	  python -m tests.ascendc.sanitized $$preset || exit 1; done

# The kernels under AddressSanitizer: phase one of every aclnn operator with handles and values at random, then both phases.
# torch's own libraries are as they are, so the sanitizer is preloaded.
.PHONY: fuzz
fuzz: $(VENV)/ready
	export PATH="$(abspath $(BIN)):$$PATH" && cmake --preset asan-kernels && cmake --build build/asan-kernels -j $(JOBS) && \
	  python -m tests.opapi.sanitized --calls 100000 $(ARGS) && python -m tests.opapi.sanitized --calls 10000 --launch $(ARGS)

# Both wheels of 64-bit Arm, tried under qemu-user; AARCH64 is the folder for that processor's packages (docs/packages.md).
AARCH64 ?= build/arm
.PHONY: aarch64
aarch64: $(VENV)/ready
	export PATH="$(abspath $(BIN)):$$PATH" JOBS=$(JOBS) && python tools/dev/aarch64.py layout $(AARCH64) && \
	  python tools/dev/aarch64.py build $(AARCH64) build/aarch64 && python tools/dev/aarch64.py check $(AARCH64) build/aarch64

# The same sources for another torch, in a folder and an environment of their own (docs/packages.md), and the rooms that tell whether it
# works. The index serves 2.10 for x86-64 as a CUDA build: 7 GB. Graph mode is 2.13's, and whoever starts compilers has its room elsewhere.
VERSION ?= 2.10.0
CORE := tests/core tests/ops tests/python tests/amp tests/optim tests/training tests/sharing tests/distributed/test_group.py \
        tests/distributed/test_ddp.py tests/package/test_versions.py
.PHONY: versions
versions: VERSION_TREE := build/versions/$(VERSION)
versions:
	$(PYTHON) tools/dev/versions.py $(VERSION) $(VERSION_TREE)
	$(MAKE) -C $(VERSION_TREE) build TORCH_SPEC=torch==$(VERSION)
	cd $(VERSION_TREE) && $(BIN)/pytest -m "not full" $(NO_HANG) $(CORE) $(ARGS)

.PHONY: bench
bench: build
	$(BIN)/python bench/run.py $(ARGS)

# Format and lint with the pinned tools; `make format` repairs what can be repaired.
.PHONY: lint format
lint: $(VENV)/ready
	$(BIN)/python tools/dev/lint.py
format: $(VENV)/ready
	$(BIN)/python tools/dev/lint.py --fix

.PHONY: clean
clean:
	rm -rf $(VENV) build dist bench/out mnist checkpoint.pth.tar .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
