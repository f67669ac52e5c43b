# The way of one parameter in docs/architecture.md: every file exists, and has the function that the table says.
set -euo pipefail
cd "$SW_SOURCE"
n=0
while read -r file name; do
    [ -f "$file" ] || { echo "docs/architecture.md: there is no $file" >&2; exit 1; }
    grep -qF -- "$name" "$file" || { echo "docs/architecture.md: $file has no $name" >&2; exit 1; }
    n=$((n + 1))
done < <(sed -nE 's/^\|[^|]*\| `([^`]+)` \| `([^`]+)` \|$/\1 \2/p' docs/architecture.md)
[ "$n" -ge 10 ] || { echo "docs/architecture.md: the table has $n hops only" >&2; exit 1; }
echo "$n hops"
