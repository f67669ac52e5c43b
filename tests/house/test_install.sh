# An installed library is all that a user's program needs: pkg-config and CMake find it, shared and static, and it shows nothing but sw_.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix
cmake --install "$SW_BUILD" --prefix "$prefix" >"$folder/install.log"
libraries=$(dirname "$(find "$prefix" -name libshardwise.a)")

fail() {
    echo "$*" >&2
    exit 1
}

for file in include/shardwise.h include/shardwise/graph.h share/man/man1/shardwise.1 share/bash-completion/completions/shardwise; do
    [ -s "$prefix/$file" ] || fail "not installed: $file"
done

# A sanitizer's run-time belongs to the whole program; that build shows more than ours and links only with its own flags.
if grep -q '^SW_SANITIZE:STRING=.' "$SW_BUILD/CMakeCache.txt"; then
    echo "a sanitizer build: only what is installed was checked"
    exit 0
fi

others=$(nm -D --defined-only "$libraries/libshardwise.so" | awk '$3 !~ /^sw_/ {print $3}')
[ -z "$others" ] || fail "the shared library also shows: $others"
nm -D --defined-only "$libraries/libshardwise.so" | grep -q ' T sw_version$' || fail "the shared library does not show sw_version"

cat >"$folder/program.c" <<'C'
#include <shardwise.h>
#include <stdio.h>
int main(void) { return puts(sw_version()) < 0; }
C
# The prefix is another one than was configured: pkg-config is told so.
flags() { PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$libraries" --define-variable=includedir="$prefix/include" "$@" shardwise; }
version=$(flags --modversion)

# shellcheck disable=SC2046
cc "$folder/program.c" $(flags --cflags --libs) -o "$folder/shared"
[ "$(LD_LIBRARY_PATH=$libraries "$folder/shared")" = "$version" ] || fail "the shared program does not say version $version"
readelf -d "$folder/shared" | grep -q 'libshardwise.so.0' || fail "the program does not ask for the library by its soname"
readelf -d "$folder/shared" | grep -q 'jansson' && fail "a program linked with the shared library must not need its dependencies itself"

# shellcheck disable=SC2046
cc "$folder/program.c" $(flags --cflags) "$libraries/libshardwise.a" $(flags --static --libs | sed 's/-lshardwise//') -o "$folder/static"
[ "$("$folder/static")" = "$version" ] || fail "the static program does not say version $version"

mkdir "$folder/project"
cp "$folder/program.c" "$folder/project"
cat >"$folder/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES C)
find_package(shardwise 0.1 REQUIRED)
foreach(kind shardwise static)
  add_executable(with_${kind} program.c)
  target_link_libraries(with_${kind} shardwise::${kind})
endforeach()
CMAKE
cmake -S "$folder/project" -B "$folder/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$folder/cmake.log" || fail "$(cat "$folder/cmake.log")"
ninja -C "$folder/project/build" >"$folder/ninja.log" || fail "$(cat "$folder/ninja.log")"
for kind in shardwise static; do
    [ "$("$folder/project/build/with_$kind")" = "$version" ] || fail "the CMake program with $kind does not say version $version"
done

[ -x "$SW_BUILD/shardwise" ] || exit 0
"$prefix/bin/shardwise" --version | grep -qF "$version" || fail "the installed command does not say version $version"
