# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A thin front over CMake. `make help` lists the targets. Variables: BUILD (folder, default build),
# JOBS, WERROR (ON: warnings are errors), PREFIX, DESTDIR, SFT_NO_PEERS=1 (no Python comparisons).
BUILD  ?= build
PREFIX ?= /usr/local
WERROR ?= OFF
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
export BUILD WERROR JOBS SFT_NO_PEERS
export PATH := $(CURDIR)/build/tools/bin:$(PATH)

CMAKE_ARGS ?=
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja -DSFT_WERROR=$(WERROR) $(CMAKE_ARGS) >/dev/null
NINJA = cmake --build $(BUILD) -j $(JOBS) --

.DEFAULT_GOAL := build
.PHONY: build demo test test-peers test-ports test-windows test-32 test-s390x test-clang test-asan test-tsan \
        test-fresh-root npm test-wasm sanitize valgrind check-all coverage bench bench-build bench-full bench-import bench-checkpoint bench-planner bench-run fuzz fuzz-build install uninstall \
        wheels test-wheels check-abi dist reproduce amalgamation format clean distclean help

build: ## build the libraries and the tool
	@scripts/bootstrap.sh build
	@mkdir -p build && $(CONFIGURE)
	@$(NINJA)

# Where nothing is built yet, the tool alone, with less optimisation: half the time until something is to be seen.
demo: DEMO = $(if $(wildcard $(BUILD)/safetensors),$(BUILD),$(BUILD)/demo-tool)
demo: CMAKE_ARGS += $(if $(wildcard $(BUILD)/safetensors),,-DCMAKE_BUILD_TYPE=Demo -DCMAKE_C_FLAGS_DEMO="-O1 -w -DNDEBUG" -DSFT_MPI=OFF)
demo: ## build, then real work on a small real model, every command printed
	@scripts/bootstrap.sh build
	@mkdir -p build && cmake -S . -B $(DEMO) -G Ninja -DSFT_WERROR=$(WERROR) $(CMAKE_ARGS) >/dev/null
	@cmake --build $(DEMO) -j $(JOBS) -- --quiet safetensors
	@scripts/demo.sh $(DEMO)/safetensors

test: ## everything that needs no heavy framework; ends with "N passed, N failed"
	@scripts/bootstrap.sh test
	@mkdir -p build && scripts/test.sh

test-peers: ## comparisons with the reference at length, new inputs every time
	@scripts/bootstrap.sh test
	@scripts/test_peers.sh

test-ports: ## sanitizers, valgrind, clang, 32 bit, big-endian, Windows
	@scripts/bootstrap.sh ports
	@scripts/ports.sh all

test-windows test-s390x test-32 test-clang test-asan test-tsan sanitize valgrind: ## one of the ports alone
	@scripts/bootstrap.sh $(patsubst test-%,%,$@)
	@scripts/ports.sh $(patsubst test-%,%,$@)

check-all: ## make test, then ASan+UBSan, TSan, 32 bit, clang, and whether it compiles for Windows
	@scripts/check_all.sh

test-fresh-root: ## make demo and make test inside a fresh Debian root (needs root and debootstrap)
	@scripts/bootstrap.sh fresh-root
	@scripts/test_fresh_root.sh

coverage: ## line and branch coverage of the library
	@scripts/bootstrap.sh coverage
	@scripts/coverage.sh

bench-build: ## the programs of the benchmarks
	@scripts/bootstrap.sh build
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA)

bench: ## the benchmark table, its JSON and its plots, within 25 minutes
	@scripts/bootstrap.sh bench
	@scripts/venv.sh
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA) --quiet
	@bench/run.sh

bench-full: ## the long benchmarks too
	@scripts/bootstrap.sh bench
	@scripts/venv.sh
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA) --quiet
	@bench/run.sh full

bench-import: ## how fast other formats become safetensors (IMPORT_MIB of data each, default 4096)
	@scripts/bootstrap.sh bench
	@scripts/venv.sh
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA) --quiet
	@bench/peers.sh $${SFT_PEERS_PYTHON:-build/venv/bin/python} build
	@build/bench-venv/bin/python bench/import_speed.py --size $${IMPORT_MIB:-4096}

bench-checkpoint: ## split, join and reshard against plain copies and PyTorch (MINDSPORE_PYTHON: and MindSpore); 15 minutes
	@scripts/bootstrap.sh bench
	@scripts/venv.sh
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA) --quiet
	@scripts/python_env.sh $${SFT_PEERS_PYTHON:-build/venv/bin/python} build/python-env
	@python3 bench/checkpoint_speed.py --tool build/safetensors -o build/checkpoint_speed.json; speed=$$?; \
	    build/python-env/bin/python bench/checkpoint_peers.py --tool build/safetensors -o build/checkpoint_peers.json \
	    $${MINDSPORE_PYTHON:+--mindspore "$$MINDSPORE_PYTHON"} && \
	    $${MINDSPORE_PYTHON:-true} bench/guide_speed.py --tool build/safetensors -o build/guide_speed.json && exit $$speed

bench-python: ## random rows of the Python package beside safetensors, fresh processes in turns (ROWS, default 200); 1 to 2 hours
	@scripts/bootstrap.sh bench
	@scripts/venv.sh
	@scripts/python_env.sh $${SFT_PEERS_PYTHON:-build/venv/bin/python} build/python-env
	@build/python-env/bin/python bench/python_rows.py --rows $${ROWS:-200} --folder build --out build/python_rows.json

bench-run: ## what a save of a training run costs, beside torch, DCP, Lightning, accelerate (RUN_MIB of state, default 768); 6 minutes
	@scripts/bootstrap.sh bench
	@mkdir -p build && $(CONFIGURE) -DSFT_BUILD_BENCH=ON
	@$(NINJA) --quiet run_speed
	@mkdir -p build/run_speed && build/bench/run_speed build/run_speed $${RUN_MIB:-768} | tee build/run_speed.json; rm -rf build/run_speed
	@scripts/venv.sh tests/python/train/requirements.txt build/venv-train
	@scripts/python_env.sh "$$PWD/build/venv-train/bin/python" "$$PWD/build/python-train-env"
	@build/python-train-env/bin/python bench/run_peers.py --mib $${RUN_MIB:-768} --out build/run_peers.json --svg build/run_peers.svg

bench-planner: ## how long plans of thousands of ranks take, and what memory
	@scripts/bootstrap.sh bench
	@mkdir -p build && $(CONFIGURE)
	@$(NINJA) --quiet safetensors
	@python3 bench/planner_speed.py --tool $(BUILD)/safetensors

fuzz: ## fuzz every target for FUZZ_SECONDS (default 60) each
	@scripts/bootstrap.sh fuzz
	@fuzz/run.sh

fuzz-build: ## OSS-Fuzz's build of the targets, each run from its seeds for FUZZ_SECONDS (default 5)
	@scripts/bootstrap.sh fuzz
	@scripts/check_fuzz_build.sh

install: ## install under PREFIX, below DESTDIR if given
	@scripts/bootstrap.sh build
	@mkdir -p build && $(CONFIGURE) -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	@$(NINJA) --quiet
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

uninstall: ## remove what the last install put there
	@[ -e $(BUILD)/install_manifest.txt ] || { echo "uninstall: $(BUILD) has installed nothing" >&2; exit 1; }
	@while read -r file || [ -n "$$file" ]; do rm -fv "$(DESTDIR)$$file"; done <$(BUILD)/install_manifest.txt
	@sed -n 's|/[^/]*$$||p; s|/site$$||p' $(BUILD)/install_manifest.txt | sort -ru | grep -E '/(sft|safetensors|libsafetensors(/site)?)$$' | \
	    while read -r folder; do rmdir "$(DESTDIR)$$folder" 2>/dev/null || true; done

check-abi: ## do programs built with the last release run with these libraries? (OLD: a commit instead)
	@scripts/bootstrap.sh abi
	@scripts/check_abi.sh $(OLD)

wheels: ## Python wheels for Linux (glibc, musl), Windows and macOS, their sdists, in build/dist-wheels; 20 minutes on 2 cores
	@scripts/bootstrap.sh wheels
	@packaging/wheels.sh build/dist-wheels

test-wheels: ## those wheels in clean roots: Debian, arm64, musl, Windows; and what goes wrong (needs root)
	@scripts/bootstrap.sh test-wheels
	@packaging/tests/test_wheels.sh build/dist-wheels

dist: ## everything of a release in build/dist: tarball, wheels, Debian, npm, SBOM, checksums; MINISIGN_KEY signs (ONLY=wheels,debs)
	@scripts/bootstrap.sh dist
	@packaging/dist.sh $(if $(ONLY),--only $(ONLY))

.PHONY: debs test-packages test-debs test-recipes
debs: ## Debian source and binary packages for this release of Debian, in build/debs
	@scripts/bootstrap.sh debs
	@packaging/debs.sh build/debs

test-packages: test-wheels test-debs test-recipes test-wasm ## artefacts made, installed and tried in clean roots (needs root)

test-debs: ## Debian packages in clean roots of bookworm and trixie; an hour
	@scripts/bootstrap.sh test-debs
	@packaging/tests/test_debs.sh

test-recipes: ## Conan, Meson, FetchContent, vcpkg, make install DESTDIR=; 10 minutes
	@scripts/bootstrap.sh test-recipes
	@packaging/tests/test_recipes.sh

reproduce: ## two releases, at two paths and by two users: the same bytes? (ONLY=wheels,debs)
	@scripts/bootstrap.sh dist
	@packaging/reproduce.sh $(if $(ONLY),--only $(ONLY))

amalgamation: ## build/amalgamation/sft.h and sft.c: the library in two files
	@command -v python3 >/dev/null || scripts/bootstrap.sh test
	@python3 scripts/amalgamate.py --out build/amalgamation

npm: ## the npm package @libsafetensors/wasm, in build/dist-npm
	@scripts/bootstrap.sh npm
	@packaging/npm.sh build/dist-npm

test-wasm: build ## the npm package in Node and headless Chromium, beside the native tool and numpy
	@scripts/bootstrap.sh test-wasm
	@scripts/venv.sh
	@packaging/npm.sh build/dist-npm
	@scripts/test_wasm.sh

.PHONY: site test-web
site: ## the page of reports, web/dist/report.html, and build/site, which opens models in a browser, of web/src
	@scripts/bootstrap.sh site
	@scripts/web.sh --page "$(CURDIR)/web/dist/report.html"
	@scripts/site.sh

test-web: ## both: types, unit tests, is the checked-in page current, headless Chromium with pictures in build/web-pictures
	@scripts/bootstrap.sh test-web
	@scripts/test_web.sh

format: ## clang-format and ruff, both pinned, over C and Python
	@scripts/venv.sh
	@scripts/check_format.sh --fix

clean: ## remove the build, keep the Python environment
	@if [ -d $(BUILD) ]; then find $(BUILD) -mindepth 1 -maxdepth 1 ! -name venv ! -name tools -exec rm -rf {} +; fi

distclean: ## remove everything that was made
	@rm -rf build build-*

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9 -]+:.*## / { printf "  %-44s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
