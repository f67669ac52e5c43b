# JSON knows no NaN and no infinity. Reals are written by what says null for them: sw_json_number (base/json_number.h) beside jansson,
# observe/json_line.c where nothing may be allocated, and real_text of numbers that were checked to be finite when they were read.
set -u
cd "$SW_SOURCE/src" || exit 1
n_failed=0
complain() {
    echo "FAILED: $*" >&2
    n_failed=1
}
printed=$(grep -rnE '\\"[^"]*\\": *%[-+ 0-9.*]*l*[gGeEfF]' --include='*.c' . || true)
[ -z "$printed" ] || complain "a real is printed into JSON by hand: $printed"
# "s:f" and json_real of a number that is none make no object at all
packed=$(grep -rnE 'json_pack\(' -A 3 --include='*.c' . | grep -E '"[^"]*s:f' || true)
[ -z "$packed" ] || complain "a real goes into json_pack as it is, not as sw_json_number: $packed"
bare=$(grep -rnE '[^_]json_real\(' --include='*.c' --include='*.h' . | grep -vE 'base/json_number.h|device/cpu/machine.c|data/json_tree.c' || true) # the last two have looked
[ -z "$bare" ] || complain "json_real in place of sw_json_number: $bare"
exit $n_failed
