# doctor names what this machine has, and ends well where ranks can share memory.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
expect 0 shardwise CPU kernels baseline BLAS memory memfd limits libyaml -- "$shardwise" doctor
finish
