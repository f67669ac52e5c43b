# What a step decides: see decisions.py.
exec python3 -B "$SW_SOURCE/tests/run/decisions.py"
