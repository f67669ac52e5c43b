# The same bits on two kinds of CPU: see two_cpus.py.
exec python3 -B "$SW_SOURCE/tests/golden/two_cpus.py"
