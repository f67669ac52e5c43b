# Faults on purpose, every allocation and every write: see inject.py.
exec python3 -B "$SW_SOURCE/tests/run/inject.py"
