# Runs over several hosts, by MPI, in all ways: see hosts.py.
exec python3 -B "$SW_SOURCE/tests/run/hosts.py" slow
