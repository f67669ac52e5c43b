# What a step decides: see decisions.py.
exec python3 "$SW_SOURCE/tests/run/decisions.py"
