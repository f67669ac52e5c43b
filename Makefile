# A thin door to CMake and Ninja.
#   make            build everything: build/shardwise and the library
#   make demo       train a small model on real text with 4 ranks, and show what came of it
#   make test       the whole test suite
#   make install    PREFIX=/usr/local
#   make aarch64    build for aarch64, and run fast tests there under qemu
#   make lint | asan | tsan | yield (YIELD_SECONDS=120) | fuzz (FUZZ_SECONDS=30 for each target) |
# bench | clean
BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
YIELD_SECONDS ?= 120
NINJA = ninja $(if $(MAKE_TERMOUT),,--quiet)
CONFIGURE = cmake -S . -G Ninja
CTEST = ctest --output-on-failure --no-tests=error -j2

all: packages-build
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@$(NINJA) -C $(BUILD)

packages-%:
	@scripts/install-packages $*

demo: packages-build
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@$(NINJA) -C $(BUILD) shardwise
	@BUILD=$(BUILD) scripts/demo

test: packages-test all
	$(CTEST) --test-dir $(BUILD)

install: all
	cmake --install $(BUILD)

bench: packages-test all
	@BUILD=$(BUILD) bench/all

lint: packages-build packages-lint
	scripts/lint

# Sanitizer builds are clang's, so that a second compiler reads everything too.
asan: packages-build packages-test packages-lint
	@CC=clang-14 $(CONFIGURE) -B build-asan -DCMAKE_BUILD_TYPE=Debug -DSW_SANITIZE=address,undefined >/dev/null
	@$(NINJA) -C build-asan
	$(CTEST) --test-dir build-asan -L fast

tsan: packages-build packages-test packages-lint
	@CC=clang-14 $(CONFIGURE) -B build-tsan -DCMAKE_BUILD_TYPE=Debug -DSW_SANITIZE=thread >/dev/null
	@$(NINJA) -C build-tsan
	$(CTEST) --test-dir build-tsan -L threads -LE slow

# What lanes, ranks and threads do in other orders: threads give their cores away at random.
yield: packages-build packages-test
	@$(CONFIGURE) -B build-yield -DSW_YIELD=ON >/dev/null
	@$(NINJA) -C build-yield
	scripts/yield build-yield $(YIELD_SECONDS)

# Another kind of CPU: compiled here, run by an emulator. SYSROOT: a folder with the libraries for
# aarch64; it is fetched where it is not there.
SYSROOT = build-aarch64/sysroot
aarch64: packages-test packages-aarch64 all
	@scripts/aarch64-sysroot $(SYSROOT)
	@$(CONFIGURE) -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64-linux-gnu.cmake -DCMAKE_SYSROOT=$(abspath $(SYSROOT)) \
	    -DSW_NATIVE_BUILD=$(abspath $(BUILD)) >/dev/null
	@$(NINJA) -C build-aarch64
	$(CTEST) --test-dir build-aarch64 -L fast

fuzz: packages-build packages-test packages-lint
	@CC=clang-14 $(CONFIGURE) -B build-fuzz -DCMAKE_BUILD_TYPE=Debug -DSW_SANITIZE=address,undefined -DSW_FUZZ=ON >/dev/null
	scripts/fuzz build-fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build build-asan build-tsan build-fuzz build-lint build-yield build-aarch64

.PHONY: all demo test install bench lint asan tsan yield fuzz aarch64 clean
