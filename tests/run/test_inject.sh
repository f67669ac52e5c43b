# Faults on purpose, every kind; of allocations and writes some: see inject.py.
exec python3 -B "$SW_SOURCE/tests/run/inject.py" 97
