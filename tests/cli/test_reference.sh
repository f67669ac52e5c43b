# The committed pages of settings and of verbs are what the command prints.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
expect 0 -- "$shardwise" train --help --markdown
cmp "$scratch/output" "$SW_SOURCE/docs/reference.md" ||
    complain 'docs/reference.md is old: build/shardwise train --help --markdown >docs/reference.md'
bash "$SW_SOURCE/scripts/commands-page" "$shardwise" >"$scratch/commands"
cmp "$scratch/commands" "$SW_SOURCE/docs/commands.md" ||
    complain 'docs/commands.md is old: scripts/commands-page build/shardwise >docs/commands.md'
finish
