# Which checkpoints stay: see keeping.py.
exec python3 -B "$SW_SOURCE/tests/run/keeping.py"
