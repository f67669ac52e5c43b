# Runs over several hosts, by MPI: see hosts.py.
exec python3 -B "$SW_SOURCE/tests/run/hosts.py" fast
