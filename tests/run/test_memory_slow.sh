# Planned memory against resident: see memory.py.
exec python3 -B "$SW_SOURCE/tests/run/memory.py"
