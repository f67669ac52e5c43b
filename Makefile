# A thin door to CMake and Ninja.
BUILD ?= build
PREFIX ?= /usr/local

all: packages-build
	cmake -S . -B $(BUILD) -G Ninja >/dev/null
	ninja -C $(BUILD)

packages-%:
	scripts/install-packages $*

test: packages-test all
	ctest --test-dir $(BUILD) --output-on-failure -j2

.PHONY: all test
