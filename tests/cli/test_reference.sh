# The committed page of settings is what the command prints.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
expect 0 -- "$shardwise" train --help --markdown
cmp "$scratch/output" "$SW_SOURCE/docs/reference.md" ||
    complain 'docs/reference.md is old: build/shardwise train --help --markdown >docs/reference.md'
finish
