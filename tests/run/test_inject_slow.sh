# Faults on purpose, every fifth allocation and write; all of them: inject.py.
exec python3 -B "$SW_SOURCE/tests/run/inject.py" 5
