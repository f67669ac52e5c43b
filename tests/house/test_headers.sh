# Each public header is whole by itself, in C11 and in C++; shardwise.h includes them all; the shared library shows what they declare and nothing else.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$SW_SOURCE/include"

fail() {
    echo "$*" >&2
    exit 1
}

cxx=""
for candidate in c++ g++ clang++ clang++-14; do
    if [ -z "$cxx" ] && command -v "$candidate" >/dev/null; then cxx=$candidate; fi
done
[ -n "$cxx" ] || echo "no C++ compiler is installed: the headers are compiled as C alone"

for header in shardwise.h shardwise/*.h; do
    printf '#include <%s>\nint main(void) { return 0; }\n' "$header" >"$folder/program.c"
    cc -std=c11 -pedantic -Wall -Wextra -Werror -Wstrict-prototypes -I. -fsyntax-only "$folder/program.c" || fail "$header alone is no C11"
    [ -z "$cxx" ] || "$cxx" -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$folder/program.c" || fail "$header alone is no C++"
    [ "$header" = shardwise.h ] || grep -qF "#include <$header>" shardwise.h || fail "shardwise.h does not include $header"
done

# The initializers of the options, as a C and a C++ program uses them.
cat >"$folder/program.c" <<'C'
#include <shardwise.h>
int main(void) {
    sw_launch_options launch = SW_LAUNCH_OPTIONS_INIT;
    sw_sharded_options sharded = SW_SHARDED_OPTIONS_INIT;
    sw_train_options train = SW_TRAIN_OPTIONS_INIT;
    return launch.size && sharded.size && train.size ? 0 : 1;
}
C
cc -std=c11 -Wall -Werror -I. -fsyntax-only "$folder/program.c" || fail "an initializer is no C11"
[ -z "$cxx" ] || "$cxx" -x c++ -std=c++2a -Wall -Werror -I. -fsyntax-only "$folder/program.c" || fail "an initializer is no C++20"

# A sanitizer's run-time shows more than ours.
if grep -q '^SW_SANITIZE:STRING=.' "$SW_BUILD/CMakeCache.txt"; then exit 0; fi
cat shardwise/*.h | grep -oE '^SW_API [^;(]*\(' | sed -E 's/.*[ *](sw_[a-z0-9_]+)\($/\1/' | sort >"$folder/declared"
# A function whose arguments have grown has a second symbol, with the version since when (SW_SYMBOL).
nm -D --defined-only "$SW_BUILD/libshardwise.so" | awk '{print $3}' | sed -E 's/_[0-9]+_[0-9]+$//' | sort -u >"$folder/shown"
[ -s "$folder/declared" ] || fail "no declaration was found"
diff "$folder/declared" "$folder/shown" || fail "declared (<) and shown by the shared library (>) differ; is SW_API before each public function, and only there?"
